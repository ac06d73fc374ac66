"""Runs as the pages draw them: the REST document of each, its badge, its sparkline, in few queries for any number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple

from django.urls import reverse
from django.utils import timezone

from dashboard.pages.shared.badges import Badge, badge
from dashboard.pages.shared.numbers import percent
from dashboard.pages.shared.run_colours import colour_of, colours_for
from runs.access import Someone
from runs.metrics import progress
from runs.metrics.models import Telemetry
from runs.models import Placement, Run
from runs.points import read
from runs.presenting import runs as presenters
from runs.presenting.newest import newest_of_all
from runs.presenting.throughput import throughputs
from runs.status import Status
from trainyard.contract.answers.runs import Lamp, RunDocument, lamps_of

LOSS = "train/loss"
SPARK_POINTS = 44
SPARK_WIDTH, SPARK_HEIGHT = 88.0, 24.0


class Row(NamedTuple):
    run: Run
    doc: RunDocument
    badge: Badge
    lamps: list[Lamp]
    step: int | None
    steps: int | None  # how many it shall do; None where nobody knows
    spark: str
    loss: float | str | None
    rate: float | None
    rate_unit: str
    mfu: str  # of what the devices can do at best; empty where nobody measured it
    nodes: int
    processes: int
    duration_s: float | None
    eta_s: float | None
    colour: int  # from 1, as the classes of the series colours count

    @property
    def is_running(self) -> bool:
        return self.run.status == Status.RUNNING


def rows(runs: Sequence[Run], *, now: datetime | None = None) -> list[Row]:
    now = now or timezone.now()
    ids = [run.pk for run in runs]
    newest = newest_of_all(runs)
    telemetry, summaries = progress.telemetry(ids), read.summaries(ids)
    sparks, speeds = read.sparklines(ids, LOSS, SPARK_POINTS), throughputs(ids)
    made = []
    for run in runs:
        summary, known, speed = summaries[run.pk], telemetry[run.pk], speeds[run.pk]
        doc = presenters.run_document(run, known, summary, now, speed, newest=newest[run.pk])
        nodes, processes = shape(run, newest[run.pk].placements)
        made.append(
            Row(
                run=run,
                doc=doc,
                badge=badge(run.status),
                lamps=[lamp for _, lamp in lamps_of(doc)],
                step=doc["step"],
                steps=doc["steps"],
                spark=spark_path(sparks.get(run.pk, [])),
                loss=summary[LOSS]["last"] if LOSS in summary else None,
                rate=speed.value,
                rate_unit=speed.unit,
                mfu="" if speed.mfu is None else percent(speed.mfu),
                nodes=nodes,
                processes=processes,
                duration_s=duration_s(run, _end_of_what_was_sent(run, known, now)),
                eta_s=eta_s(doc, known.median_step_s) if run.is_live else None,
                colour=colour_of(run.pk) + 1,
            )
        )
    return made


def coloured(user: Someone, made: Sequence[Row]) -> list[Row]:
    """The rows in the colours that this person chose for their runs."""
    colours = colours_for(user, [row.run for row in made])
    return [row._replace(colour=colours[row.run.pk] + 1) for row in made]


@cache
def _url_of_any() -> str:
    return reverse("run", args=("RUN-ID",))


def run_url(run_id: str) -> str:
    """The URL of the run's page, for tables that hold hundreds of them."""
    return _url_of_any().replace("RUN-ID", run_id)


def shape(run: Run, placements: Sequence[Placement]) -> tuple[int, int]:
    """Nodes, and ranks on each, as the newest attempt's placements have them, else as the spec asks; none of what runs
    elsewhere."""
    if run.is_local:
        return 0, 0
    if placements:
        return len(placements), max(placement.num_ranks for placement in placements)
    resources = run.spec.get("resources", {})
    nodes = resources.get("nodes", 1)
    return int(nodes.get("max", 1) if isinstance(nodes, dict) else nodes), int(resources.get("processes_per_node") or 1)


def duration_s(run: Run, now: datetime) -> float | None:
    return max(0.0, ((run.ended_at or now) - run.started_at).total_seconds()) if run.started_at else None


def _end_of_what_was_sent(run: Run, known: Telemetry, now: datetime) -> datetime:
    """How long a run goes on elsewhere is not known unless its heartbeats come; how far its records reach is."""
    if not run.is_local or run.status == Status.RUNNING:
        return now
    return now if known.step_at is None else min(now, datetime.fromtimestamp(known.step_at, UTC))


def eta_s(doc: RunDocument, median_step_s: float | None) -> float | None:
    step, steps = doc["step"], doc["steps"]
    is_stepping = doc["lamps"]["progress"]["colour"] == presenters.GREEN
    if not is_stepping or median_step_s is None or step is None or steps is None:
        return None
    return float((steps - step) * median_step_s) if step < steps else None


def spark_path(values: Iterable[float]) -> str:
    """An SVG path through the values, left to right."""
    found = list(values)
    if len(found) < 2:
        return ""
    low, high = min(found), max(found)
    span = (high - low) or 1.0
    step = SPARK_WIDTH / (len(found) - 1)
    points = (
        f"{index * step:.1f},{2 + (high - value) / span * (SPARK_HEIGHT - 4):.1f}" for index, value in enumerate(found)
    )
    return "M" + "L".join(points)
