"""Finding the stragglers of live attempts: from the stored series to the attempt's row and the run's history."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import NamedTuple

import numpy as np
from django.db import transaction

from runs.life.watching import scores as scoring
from runs.models import Attempt, Placement
from runs.records.metrics.models import Series, Telemetry
from runs.records.points import read
from runs.serving import broadcast
from runs.values.columns import MetricAlarm, SlowRank
from trainyard.contract.base import SpecDocument, to_builtins
from trainyard.formats.figures import number, seconds
from trainyard.formats.words import listed
from trainyard.spec.sections.hangs import Stragglers

MAX_NAMED = 4
# Of one rank, and of several.
IN_PHASE = {
    "data": ("in reading its data", "in reading their data"),
    "forward": ("in its forward pass", "in their forward passes"),
    "backward": ("in its backward pass", "in their backward passes"),
    "optimizer": ("in its optimizer step", "in their optimizer steps"),
    "": ("in its own work", "in their own work"),
}
MANY_DEVIATIONS = 1_000.0  # above it their number says nothing
LARGEST_TIMES = 100.0  # above it the difference says more than the ratio


def slow_sentences(found: Sequence[SlowRank], *, num_ranks: int) -> list[str]:
    """Return a sentence for the slow ranks of each node and phase."""
    ordered = sorted(found, key=lambda one: (one.node, one.phase, one.rank))
    groups = groupby(ordered, key=lambda one: (one.node, one.phase))
    return [slow_sentence(list(group), num_ranks=num_ranks) for _, group in groups]


def slow_sentence(group: Sequence[SlowRank], *, num_ranks: int) -> str:
    """Say of ranks of one node that are slow in the same phase how much, in what and for how long."""
    several = len(group) > 1
    times = sum(one.times for one in group) / len(group)
    excess_s = sum(one.excess_s for one in group) / len(group)
    steps = max(one.last_step - one.since_step + 1 for one in group)
    others = "the other" if num_ranks - len(group) == 1 else "the others"
    how = f"{seconds(excess_s)} slower than" if times > LARGEST_TIMES else f"{times:.1f} times as slow as"
    been = f"{who(group)} {'have' if several else 'has'} been {how} {others}"
    where = IN_PHASE.get(group[0].phase, IN_PHASE[""])[several]
    return f"{been} {where} for {steps:,} step{'s' if steps != 1 else ''}."


def over_sentence(group: Sequence[SlowRank], *, num_ranks: int) -> str:
    """Say that ranks keep up again."""
    several = len(group) > 1
    others = "the other" if num_ranks - len(group) == 1 else "the others"
    return f"{who(group)} keep{'' if several else 's'} up with {others} again."


def who(group: Sequence[SlowRank]) -> str:
    ranks = [str(one.rank) for one in group]
    nodes = sorted({one.node for one in group if one.node})
    where = f" on {nodes[0]}" if len(nodes) == 1 else f" on {len(nodes)} nodes" if nodes else ""
    return f"Rank {ranks[0]}{where}" if len(ranks) == 1 else f"Ranks {listed(ranks, at_most=MAX_NAMED)}{where}"


def alarm_sentence(alarm: MetricAlarm, *, over: int, deviations: float | None) -> str:
    """Say which value broke a rule, and by how much."""
    where = "".join(f" {name} {value}" for name, value in sorted(alarm.labels.items()))
    name = f"{alarm.metric}{f' of{where}' if where else ''}"
    if alarm.kind == "nan":
        what = "not a number" if alarm.word == "NaN" else "infinite"
        return f"{name} is {what} at step {alarm.first_step:,}."
    far = f"{deviations:,.0f} deviations" if deviations is not None and deviations < MANY_DEVIATIONS else "far"
    words = f"{far} above {number(alarm.usual)}, the median of up to {over:,} values before it."
    return f"{name} rose to {number(alarm.value)} at step {alarm.first_step:,}: {words}"


FOUND, OVER = "straggler", "straggler-over"
LEAST_S = 3.0  # a rank that was slow for less has met a hiccup of its machine
MOST_COLUMNS = 3_000
WINDOWS = 3  # how many are read: the past is compared with the last
WRITE_EVERY_S = 2.0
NAMES = tuple(scoring.series_of(phase) for phase in (*scoring.OWN, scoring.WAITING))


class Look(NamedTuple):
    """Recent measurements of an attempt's ranks, and the columns of the window that is judged."""

    measured: scoring.RankMeasurements
    over: int

    @property
    def num_steps(self) -> int:
        """Number of steps of the window."""
        steps = self.measured.steps
        return self.over * int(steps[1] - steps[0]) if len(steps) > 1 else self.over


def look_at(attempt: Attempt, telemetry: Telemetry, rules: Stragglers) -> Look | None:
    """Return what the ranks of the attempt measured; None where nobody could be blamed by it."""
    if attempt.world_size < 2 or telemetry.attempt != attempt.fence or telemetry.step is None:
        return None
    if int(((attempt.run.spec.get("parallel") or {}).get("pipeline") or {}).get("stages") or 1) > 1:
        return None  # stages of a pipeline have other work each, and wait by plan
    over = max(rules.over, math.ceil(LEAST_S / max(telemetry.median_step_s or LEAST_S, 1e-4)))
    over = min(over, MOST_COLUMNS // WINDOWS)
    rows = Series.objects.filter(run_id=attempt.run_id, name=NAMES[0])
    first = max((row.firsts[str(attempt.fence)] for row in rows if str(attempt.fence) in row.firsts), default=None)
    if first is None:
        return None
    low = max(first + scoring.WARM_UP, telemetry.step - WINDOWS * over + 1)
    if telemetry.step - low + 1 < over:
        return None
    grid = read.grid(attempt.run_id, NAMES, (low, telemetry.step), columns=WINDOWS * over)
    if len(grid.ranks) < 2:
        return None
    phases = dict(zip((*scoring.OWN, scoring.WAITING), grid.values, strict=True))
    steps = grid.first_step + grid.width * np.arange(grid.num_columns, dtype=np.int64)
    return Look(_complete(scoring.RankMeasurements(grid.ranks, steps, phases)), max(1, over // grid.width))


def _complete(measured: scoring.RankMeasurements) -> scoring.RankMeasurements:
    """Leave out the newest steps, of which not all ranks' points have arrived yet."""
    num_seen = np.isfinite(measured.own).sum(axis=0)
    whole = np.flatnonzero(num_seen == num_seen.max()) if num_seen.size else num_seen
    end = int(whole[-1]) + 1 if whole.size else 0
    phases = {name: values[:, :end] for name, values in measured.phases.items()}
    return scoring.RankMeasurements(measured.ranks, measured.steps[:end], phases)


def waits_in_each_step(spec: SpecDocument) -> bool:
    """Return whether each step has a collective of all ranks, in which the quick ones wait for the slow."""
    return bool(((spec.get("parallel") or {}).get("synchronization") or {}).get("kind", "every-step") == "every-step")


def scores_of(attempt: Attempt, telemetry: Telemetry) -> list[scoring.Score]:
    """Return the scores of the attempt's ranks now; nothing where they cannot be compared."""
    look = look_at(attempt, telemetry, Stragglers.of(attempt.run.spec))
    return [] if look is None else scoring.scores(look.measured, look.over)


class SlowRankWatch:
    """Judges live attempts, as often as it is called."""

    def __init__(self) -> None:
        self._written_at: dict[str, float] = {}  # by attempt

    def judge(self, attempt: Attempt, telemetry: Telemetry, now: datetime) -> list[SlowRank]:
        """Write which ranks are slow now. Returns those that were not before."""
        rules = Stragglers.of(attempt.run.spec)
        look = look_at(attempt, telemetry, rules)
        if look is None:
            return []
        before = {one.rank: one for one in attempt.stragglers}
        known, waits = {rank: one.since_step for rank, one in before.items()}, waits_in_each_step(attempt.run.spec)
        found = scoring.slow_ranks(look.measured, factor=rules.factor, over=look.over, known=known, waits=waits)
        _place(attempt, found, before, now)
        hidden = _not_long_enough(attempt, [one for one in found if one.rank not in before], look.num_steps)
        current = [one for one in found if one.rank not in hidden]
        started = [one for one in current if one.rank not in before]
        ended = [one for rank, one in before.items() if rank not in {now_slow.rank for now_slow in current}]
        is_due = now.timestamp() - self._written_at.get(attempt.pk, 0.0) >= WRITE_EVERY_S
        if started or ended or (current and is_due):
            self._write(attempt, current, started, ended)
            self._written_at[attempt.pk] = now.timestamp()
        return started

    def forget(self, live: Iterable[str]) -> None:
        """Drop what is known of attempts that are not live any more."""
        self._written_at = {pk: self._written_at[pk] for pk in live if pk in self._written_at}

    def _write(self, attempt: Attempt, current: list[SlowRank], started: list[SlowRank], ended: list[SlowRank]) -> None:
        rows = to_builtins(current)
        with transaction.atomic():
            live = Attempt.objects.filter(pk=attempt.pk, ended_at=None, slow_ranks=attempt.slow_ranks)
            if not live.update(slow_ranks=rows):
                return  # it has ended, or another process was faster
            num_ranks = attempt.world_size
            for sentence in slow_sentences(started, num_ranks=num_ranks):
                attempt.run.record(FOUND, sentence, data={"ranks": to_builtins(started)}, attempt=attempt)
            if ended:
                sentence = over_sentence(ended, num_ranks=num_ranks)
                attempt.run.record(OVER, sentence, data={"ranks": [one.rank for one in ended]}, attempt=attempt)
        attempt.slow_ranks = rows
        if started or ended:
            broadcast.nodes_changed()


def _not_long_enough(attempt: Attempt, started: Sequence[SlowRank], window: int) -> set[int]:
    """Return those ranks that were slow before, and not now for as many windows as they have been found: one whose
    machine is slow by fits does not fill the history."""
    if not started:
        return set()
    data = attempt.events.filter(code=FOUND).values_list("data", flat=True)
    found = Counter(one["rank"] for row in data for one in row["ranks"])
    return {
        one.rank
        for one in started
        if found[one.rank] and one.last_step - one.since_step + 1 < window * min(1 + found[one.rank], WINDOWS)
    }


def _place(attempt: Attempt, found: Sequence[SlowRank], before: Mapping[int, SlowRank], now: datetime) -> None:
    """Add on which nodes the ranks are, and since when they are known."""
    nodes = nodes_by_rank(attempt.placements.select_related("node") if found else ())
    for one in found:
        one.node, one.node_id = nodes.get(one.rank, ("", ""))
        one.at = before[one.rank].at if one.rank in before else now.timestamp()


def nodes_by_rank(placements: Iterable[Placement]) -> dict[int, tuple[str, str]]:
    """Return the name and the id of the node of each rank."""
    return {one.first_rank + at: (one.node.name, one.node_id) for one in placements for at in range(one.num_ranks)}
