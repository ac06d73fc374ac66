"""Figures of a run that Annex XI, section 1, point 2 of Regulation (EU) 2024/1689 asks for about a model's training.

Each says how it is known. What the run has not measured says so, and nothing stands in its place.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Annotated, NamedTuple

import numpy as np
from msgspec import Meta

from runs.models import Dataset, Placement, Run
from runs.presenting.measured import measured_of
from runs.presenting.runs import single_document
from runs.presenting.stamps import stamp
from runs.records.points import read
from trainyard.contract.facts import EstimateDocument

MEASURED, COMPUTED, ESTIMATED, NOT_MEASURED = "measured", "computed from the spec", "estimated", "not measured"
WATTS = {"gpu": 400, "cpu": 10}  # assumed of a rank where no meter is


class AnnexFigure(NamedTuple):
    point: Annotated[str, Meta(description="of Annex XI, section 1")]
    name: str
    value: float | str | None
    unit: str
    basis: Annotated[str, Meta(description="measured, stated in or computed from the spec, estimated, or not measured")]
    note: str = ""


def annex_of(run: Run, now: datetime) -> list[AnnexFigure]:
    found = [*_data(run), *_computing(run, now), _energy(run, now)]
    return [one if one.value else one._replace(value=None, basis=NOT_MEASURED, note="") for one in found]


def _data(run: Run) -> Iterator[AnnexFigure]:
    said = run.spec.get("task", {}).get("data") or {}
    location = re.sub(r"(?<=//)[^/@]*@|\?.*", "", said.get("location") or "")  # without what opens it
    name = said.get("dataset") or " ".join(filter(None, (said.get("source"), location)))
    row = Dataset.objects.filter(project=run.project, name=said.get("dataset") or "").first() or Dataset()
    yield AnnexFigure("2(c)", "Data set", name, "", "stated in the spec")
    yield AnnexFigure("2(c)", "SHA-256 of the data set", said.get("digest") or row.digest, "", MEASURED)
    yield AnnexFigure("2(c)", "Data points", row.facts.get("num_rows"), "rows", MEASURED, "as a node counted them")
    yield AnnexFigure("2(c)", "Size of the data set", row.size_bytes, "bytes", MEASURED)


def _computing(run: Run, now: datetime) -> Iterator[AnnexFigure]:
    document, plan, measured = single_document(run), run.estimate or EstimateDocument(), measured_of(run)
    time, step = document["time"], document["step"] or 0
    once, again, saving = (time["productive_s"], time["recomputed_s"], time["checkpoint_s"]) if time else (0.0,) * 3
    counted = measured["flops_per_step"] if measured else None
    flops = (counted or plan.get("flops_per_step") or 0) * (step - _first_step(run)) * (1 + again / once if once else 1)
    note = "of the model, forward and backward; steps that were trained again count by their time"
    yield AnnexFigure("2(d)", "Operations", flops, "FLOP", MEASURED if counted else ESTIMATED, note)
    yield AnnexFigure("2(d)", "Training time", once + again + saving, "s", MEASURED, "of steps and checkpoints")
    yield AnnexFigure(
        "2(d)", "Time of all ranks", _rank_seconds(run, now), "s", MEASURED, "from their start to their end"
    )
    yield AnnexFigure("2(d)", "Started", stamp(run.started_at), "", MEASURED)
    yield AnnexFigure("2(d)", "Ended", stamp(run.ended_at), "", MEASURED)
    yield AnnexFigure("2(d)", "Hardware", _hardware(run), "", MEASURED, "of the newest attempt, as its nodes report it")
    yield AnnexFigure("2(d)", "Parameters", plan.get("num_parameters"), "", COMPUTED)


def _first_step(run: Run) -> int:
    """Return the step of another run's checkpoint that it went on from; 0 where it began anew."""
    attempt = run.attempts.order_by("number").first()
    offered = attempt.meeting.checkpoints if attempt and attempt.meeting else []
    return offered[0].step if offered and offered[0].run != run.pk else 0


def _rank_seconds(run: Run, now: datetime) -> float:
    spans = ((one.world_size, (one.ended_at or now) - (one.go_at or now)) for one in run.attempts.exclude(go_at=None))
    return sum(num_ranks * span.total_seconds() for num_ranks, span in spans)


def _hardware(run: Run) -> str:
    attempt, found = run.attempts.order_by("-number").first(), Counter[str]()
    for one in attempt.placements.select_related("node") if attempt else ():
        machine = one.node.machine
        device = machine.gpus[0].name if machine.gpus else machine.cpu and machine.cpu.model
        found[f"{one.num_ranks} ranks on {device or 'an unknown device'}"] += 1
    return "; ".join(f"{number} × {words}" for words, number in found.items())


def with_gpus(run_ids: Collection[str]) -> set[str]:
    """Return those of the runs that had nodes with GPUs, whatever their specs ask for."""
    rows = Placement.objects.filter(attempt__run__in=run_ids, node__inventory__gpus__0__isnull=False)
    return set(rows.values_list("attempt__run", flat=True))


def measured_joules(run: Run) -> float:
    """Integrate the power of each GPU over its attempts: the mean, times the samples and what lies between two. 0 where
    no meter is."""
    joules = 0.0
    for one in read.curves({run.pk: (None, None)}, ["system/gpu_power_w"], attempts="all")[1]:
        values, times = one.columns["value" if one.kind == "raw" else "mean"], one.columns["time"]
        counts = one.columns.get("count", np.ones_like(times)) * np.isfinite(values)
        if (later := counts[1:].sum()) > 0:  # the first bucket's time is that of its last point
            joules += float((np.where(counts, values, 0) * counts).sum() * (times[-1] - times[0]) / later)
    return joules


def _energy(run: Run, now: datetime) -> AnnexFigure:
    if (joules := measured_joules(run)) > 0:
        return AnnexFigure("2(e)", "Energy", joules / 3.6e6, "kWh", MEASURED, "of its GPUs alone, by their meters")
    watts = WATTS["gpu" if with_gpus([run.pk]) else "cpu"]
    note = f"no meter was there: {watts} W are assumed of each rank"
    return AnnexFigure("2(e)", "Energy", _rank_seconds(run, now) * watts / 3.6e6, "kWh", ESTIMATED, note)
