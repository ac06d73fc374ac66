"""Runs as the pages draw them: the REST document of each, its badge, its sparkline, in five queries for any number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.utils import timezone

from dashboard.pages.badges import Badge, badge
from runs.metrics import read
from runs.models import Run
from runs.presenters import run_document

LOSS = "train/loss"
SPARK_POINTS = 44
SPARK_WIDTH, SPARK_HEIGHT = 88.0, 24.0
RATES = (("train/tokens_per_second", "tok/s"), ("train/samples_per_second", "samples/s"))


class Row(NamedTuple):
    run: Run
    doc: dict[str, Any]
    badge: Badge
    spark: str
    rate: float | None
    rate_unit: str
    nodes: int
    processes: int
    duration_s: float | None
    eta_s: float | None

    @property
    def ranks(self) -> int:
        return self.nodes * self.processes


def rows(runs: Sequence[Run], *, now: datetime | None = None) -> list[Row]:
    now = now or timezone.now()
    ids = [run.pk for run in runs]
    telemetry = read.telemetry(ids)
    summaries = read.summaries(ids)
    sparks = read.sparklines(ids, LOSS, SPARK_POINTS)
    made = []
    for run in runs:
        summary = summaries.get(run.pk, {})
        known = telemetry.get(run.pk)
        doc = run_document(run, known, summary, now)
        rate, unit = throughput(summary)
        nodes, processes = shape(run)
        made.append(
            Row(
                run,
                doc,
                badge(run.status),
                spark_path(sparks.get(run.pk, [])),
                rate,
                unit,
                nodes,
                processes,
                duration_s(run, now),
                eta_s(doc, known.median_step_s if known else None) if run.is_live else None,
            )
        )
    return made


def shape(run: Run) -> tuple[int, int]:
    """Nodes, and processes on each, as the newest attempt has them, else as the spec asks."""
    resources = run.spec.get("resources", {})
    nodes = resources.get("nodes", 1)
    return (
        int(nodes.get("max", 1) if isinstance(nodes, dict) else nodes),
        int(resources.get("processes_per_node") or 1),
    )


def throughput(summary: dict[str, Any]) -> tuple[float | None, str]:
    for name, unit in RATES:
        if name in summary:
            return summary[name].get("last"), unit
    return None, ""


def duration_s(run: Run, now: datetime) -> float | None:
    if run.started_at is None:
        return None
    return ((run.ended_at or now) - run.started_at).total_seconds()


def eta_s(doc: dict[str, Any], median_step_s: float | None) -> float | None:
    step, steps = doc.get("step"), doc.get("steps")
    if median_step_s is None or step is None or steps is None:
        return None
    return float(max(0, steps - step) * median_step_s)


def spark_path(values: Iterable[Any]) -> str:
    """An SVG path through the values, left to right; what is not a finite number is left out."""
    finite = [float(value) for value in values if isinstance(value, int | float) and abs(value) < 1e300]
    if len(finite) < 2:
        return ""
    low, high = min(finite), max(finite)
    span = (high - low) or 1.0
    step = SPARK_WIDTH / (len(finite) - 1)
    points = (
        f"{index * step:.1f},{2 + (high - value) / span * (SPARK_HEIGHT - 4):.1f}" for index, value in enumerate(finite)
    )
    return "M" + "L".join(points)
