"""The plan of a run beside what came of it: row by row, with the difference, and a word where it is large. Beside them
the coordinate check of a learning rate that muP carries over from another width."""

import json
import math
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import NamedTuple
from urllib.parse import quote

from django.urls import reverse

from dashboard.pages.shared.estimate import ASSUMED, spans
from runs.models import Placement, Run
from runs.presenting.advice import Advice, advice_of
from runs.presenting.measured import Measured, measured_of, over
from runs.records.metrics.progress import facts_of
from runs.records.time_use.sums import times_shown
from trainyard.contract.facts import COORDINATES, CoordinateFacts, EstimateDocument, MemoryDocument, StepTimeDocument
from trainyard.formats.figures import between, percent, rate, scaled, seconds, size

NEAR = 0.2  # a difference above this gets a word…
SLIGHT = 0.02  # …unless it is less than this of a step: a part of a millisecond may be off by as much
MAX_KINDS = 16  # of ranks, each with a row of its own
MANY_TIMES = 3.0  # from where a difference is shown as a factor
ALIKE = 1.05  # a ratio within which ranks hold the same
# A power of the width above this is growth: a rate that is right for one width is too high at another. Over two
# doublings a power is known to 0.25; without muP that of the logits is 1.2.
STEEP = 0.35


class Row(NamedTuple):
    label: str
    help: str
    predicted: str
    measured: str
    difference: str
    tone: str  # green: in the range, or near; amber: off by more; none: by too little of a step to matter
    why: str
    range: str = ""  # in which the measured value should lie; empty where nothing says so


class PlanTab(NamedTuple):
    time: list[Row]
    rates: list[Row]
    memory: list[Row]
    warnings: list[str]
    has_prediction: bool
    num_steps: int | None  # that the measured numbers are over; None: nothing was measured yet
    is_measured: bool  # the rates that the prediction counted with


def plan_tab(run: Run) -> PlanTab:
    predicted: EstimateDocument = run.estimate or EstimateDocument()
    measured = measured_of(run)
    is_measured = bool(predicted.get("is_measured"))
    return PlanTab(
        time=_said_once(_time_rows(predicted, measured, is_measured)),
        rates=_said_once(_rate_rows(predicted, measured)),
        memory=_said_once(_memory_rows(predicted, measured)),
        warnings=[one for one in predicted.get("warnings") or [] if not one.startswith(ASSUMED)],
        has_prediction=bool(predicted),
        num_steps=int(measured["num_steps"]) if measured and measured["num_steps"] else None,
        is_measured=is_measured,
    )


def advice_tab(run: Run, now: datetime) -> list[tuple[Advice, str]]:
    """Return the changes that a run's measurements advise, once it has ended, each with the address of the form, filled
    in; it is empty where no field changes it."""
    time = times_shown([run], now).get(run.pk)
    attempt = run.attempts.order_by("-number").first()
    if run.ended_at is None or time is None or attempt is None:
        return []
    placements = list(attempt.placements.select_related("node"))
    limits = [limit for one in placements if (limit := _bytes_of_a_rank(one))]
    found = advice_of(run.spec, measured_of(run), time, len(placements), min(limits, default=None))
    form = f"{reverse('launch')}?from=change:{run.pk}@"
    return [(one, form + quote(json.dumps(one.changes)) if one.changes else "") for one in found]


def _bytes_of_a_rank(placement: Placement) -> float | None:
    """The memory of the smallest GPU of its node; without any, its share of the machine's."""
    machine = placement.node.machine
    gpus = [gpu.memory_bytes for gpu in machine.gpus or [] if gpu.memory_bytes]
    return min(gpus) if gpus else (machine.memory_bytes or 0) / max(1, placement.num_ranks) or None


def _said_once(rows: Iterator[Row]) -> list[Row]:
    """A reason that several rows share stands at the first of them."""
    made: list[Row] = []
    for row in rows:
        made.append(row._replace(why="") if row.why in [one.why for one in made] else row)
    return made


def _time_rows(predicted: EstimateDocument, measured: Measured | None, is_measured: bool) -> Iterator[Row]:
    plan = predicted.get("step_time", StepTimeDocument())
    found = measured["step_time"] if measured else {}
    slight = SLIGHT * (plan.get("total") or 0.0)
    slower = (
        "Something else ran on the machines, or their clocks were lowered: the Ranks tab says which rank was slow."
        if is_measured
        else "The plan counted with assumed speeds. Run the communication benchmark: the next plan counts with yours."
    )
    quicker = slower if not is_measured else "The machines were busier when the benchmark measured them."
    why = slower, quicker
    whole = plan.get("total"), found.get("total")
    compute = plan.get("compute"), found.get("compute")
    yield _row("A whole step", "of the slowest rank", *whole, seconds, *why, range_of=plan)
    yield _row("Compute", "forward and backward", *compute, seconds, *why, slight=slight)
    yield _row(
        "Communication",
        "and waiting for other ranks, a pipeline's bubble too",
        over(sum, (plan.get("communication"), plan.get("bubble"))),
        found.get("communication"),
        seconds,
        "Ranks wait for the slowest here: where their speed differs, this grows.",
        "More of it was hidden behind computing.",
        slight=slight,
    )
    yield _row("Optimizer", "", plan.get("optimizer"), found.get("optimizer"), seconds, *why, slight=slight)
    yield _row("Data", "waiting for the next batch; the plan counts with none", None, found.get("data"), seconds)
    if found.get("checkpoint"):
        yield _row("Checkpoint", "what one takes from training, over all steps", None, found["checkpoint"], seconds)


def _rate_rows(predicted: EstimateDocument, measured: Measured | None) -> Iterator[Row]:
    pace = "It follows from the time of a step."
    unit = str(predicted.get("unit") or "samples")
    planned, found = predicted.get("units_per_second"), measured and measured["units_per_second"]
    yield _row(
        "Throughput", f"{unit} in a second, over all ranks", planned, found, lambda one: rate(one, unit), pace, pace
    )
    sent = "A run sends more at its start and end, and when it validates; over few steps that counts."
    found_bytes = measured and measured["sent_bytes"]
    yield _row("Sent in a step", "by the busiest rank", predicted.get("sent_bytes"), found_bytes, size, sent, sent)
    flops = predicted.get("flops_per_step"), measured and measured["flops_per_step"]
    yield _row("Model FLOPs in a step", "over all ranks", *flops, lambda one: scaled(one, "FLOP"))
    if bubble := predicted.get("bubble"):
        yield _row("Pipeline bubble", "as a share of a step; measured, it is in communication", bubble, None, percent)
    if measured and measured["mfu"] is not None:
        yield _row("MFU", "of what the devices can do at best", None, measured["mfu"], percent)


def _memory_rows(predicted: EstimateDocument, measured: Measured | None) -> Iterator[Row]:
    parts = dict(enumerate(predicted.get("memory") or []))
    plan = {rank: one.get("total") for rank, one in parts.items()}
    found = measured["memory"] if measured else {}
    kinds: dict[tuple[int | None, int | None], list[int]] = {}
    for rank in sorted({*plan, *found}):
        key = (_rounded(plan.get(rank)), None if len(plan) > MAX_KINDS else _rounded(found.get(rank)))
        kinds.setdefault(key, []).append(rank)
    for ranks in list(kinds.values())[:MAX_KINDS]:
        most = max((value for rank in ranks if (value := found.get(rank)) is not None), default=None)
        yield _row(
            f"{'Rank' if len(ranks) == 1 else 'Ranks'} {spans(ranks)}",
            "at the fullest moment",
            plan.get(ranks[0]),
            most,
            size,
            "Something holds memory that the plan does not know of, such as a library's own buffers.",
            "Less was kept than counted, such as buffers that were used again.",
            range_of=parts.get(ranks[0]),
        )


def _row(
    label: str,
    help: str,
    predicted: float | None,
    measured: float | None,
    words: Callable[[float], str],
    more: str = "",
    less: str = "",
    *,
    slight: float = 0.0,
    range_of: MemoryDocument | StepTimeDocument | None = None,
) -> Row:
    difference, tone, why = "", "", ""
    range_of = range_of or StepTimeDocument()
    low, high = range_of.get("low"), range_of.get("high")  # a run that is older has none
    if predicted and measured is not None:
        off = measured / predicted - 1
        is_near = abs(off) <= NEAR if low is None or high is None else low <= measured <= high
        tone = "green" if is_near else "amber" if abs(measured - predicted) > slight else ""
        difference = _difference(off)
        why = "" if tone != "amber" else more if off > 0 else less
    shown = [words(value) if value is not None else "–" for value in (predicted, measured)]
    span = "" if low is None or high is None else between(low, high, words)
    return Row(label, help, shown[0], shown[1], difference, tone, why, span)


def _difference(off: float) -> str:
    if off >= MANY_TIMES - 1:
        return f"{1 + off:.3g} times"
    points = round(100 * off)
    return f"{points:+d} %".replace("-", "−") if points else "0 %"


def _rounded(value: float | None) -> int | None:
    """The same for what differs by a few percent."""
    return None if not value or value <= 0 else round(math.log(value, ALIKE))


class ActivationRow(NamedTuple):
    name: str
    changes: list[str]
    power: str
    is_steep: bool


def width_transfer(run: Run) -> dict[str, object] | None:
    """None for a run without a base width, and until its rank 0 has reported."""
    model = run.spec.get("task", {}).get("model") or {}
    if not model.get("base_width"):
        return None
    found = facts_of(run.pk, COORDINATES, CoordinateFacts).get(0)
    if found is None or not found.widths:
        return None
    lines = []
    for name, changes in found.changes.items():
        power, shown = found.powers.get(name, 0.0), [f"{change:.3f}" for change in changes]
        lines.append(ActivationRow(name, shown, f"{power:+.2f}".replace("-", "−"), power > STEEP))
    base, width = int(model["base_width"]), int(model.get("width") or 0)
    steep = ", ".join(one.name for one in lines if one.is_steep)
    sentence = f"No activation grows with the width: the rate found at width {base} holds at {width}."
    if steep:
        sentence = f"Grows with the width: {steep}. The rate found at width {base} may be too high at {width}."
    return {"found": found, "lines": lines, "sentence": sentence, "is_steep": bool(steep)}
