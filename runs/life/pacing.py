"""Speed of elastic runs on each number of nodes that they have trained on, from the steps that their attempts took.

Control notes where an attempt was first seen, and the mean time of a step since then, with checkpoints and validations.
"""

from collections.abc import Iterable, Mapping, Sequence

from django.db.models import Count

from runs.models import Attempt, Run
from runs.placing.speeds import Speed
from runs.records.metrics.models import Telemetry
from trainyard.formats.words import counted

LEAST_STEPS, LEAST_S, MOVED = 5, 10.0, 0.05


def measure(attempts: Iterable[Attempt]) -> None:
    """Write how fast the attempts step, where that is news; the first time beside what their runs did on other
    sizes."""
    known = Telemetry.objects.in_bulk([one.run_id for one in attempts])
    for attempt in attempts:
        found, pace = known.get(attempt.run_id), attempt.pace
        if found is None or found.attempt != attempt.fence or found.step is None or found.step_at is None:
            continue
        if pace is not None:
            steps, seconds = found.step - pace["step"], found.step_at - pace["at"]
            before = pace.get("step_s")
            if steps < LEAST_STEPS or seconds < LEAST_S or (before and abs(seconds / steps - before) < MOVED * before):
                continue
            others = {} if before else measured_sizes([attempt.run_id])[attempt.run_id]
            pace = {**pace, "step_s": seconds / steps}
            if sentence := measured_sentence(attempt.run, others, len(attempt.placements.all()), seconds / steps):
                attempt.run.record("speed-measured", sentence, attempt=attempt)
        else:
            pace = {"step": found.step, "at": found.step_at}
        attempt.pace = pace
        Attempt.objects.filter(pk=attempt.pk).update(pace=pace)


def measured_sizes(run_ids: Sequence[str]) -> dict[str, dict[int, float]]:
    """Return the seconds of a step by the number of nodes, for each of the runs: the newest of each number."""
    found: dict[str, dict[int, float]] = {run: {} for run in run_ids}
    rows = Attempt.objects.filter(run__in=run_ids, pace__step_s__isnull=False).annotate(nodes=Count("placements"))
    for run, nodes, pace in rows.order_by("number").values_list("run", "nodes", "pace"):
        assert pace is not None, "the filter has no others"
        found[run][nodes] = pace["step_s"]
    return found


def speed_sentence(run: Run, speed: Speed, num_before: int, number: int) -> str:
    """Say what a change is expected to do to the speed, and by what; nothing of a run that moves."""
    if number == num_before:
        return ""
    times = f"{speed.times(num_before, number):.3g} times the {_unit(run)}"
    return f" It is expected to have {times}, {speed.basis(num_before, number)}."


def measured_sentence(run: Run, others: Mapping[int, float], number: int, step_s: float) -> str:
    """Say what came of a change: the nearest other size beside this one. Nothing where no other was measured."""
    if not (sizes := sorted(others.keys() - {number}, key=lambda one: (abs(one - number), one))):
        return ""
    before = others[sizes[0]]
    took = f"On {counted(number, 'node')} a step takes {step_s:.3g} s, on {sizes[0]} it took {before:.3g} s"
    return f"{took}: {before / step_s:.3g} times the {_unit(run)}."


def _unit(run: Run) -> str:
    """A recipe keeps its global batch; what a script has in a step is its own."""
    return "samples/s" if run.recipe else "steps/s"
