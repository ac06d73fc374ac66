"""The trials of a sweep as samplers see them. What has ended is read once and kept by the process."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from runs.models import Sweep, Trial
from runs.sweeps.search.trials import PastTrial
from trainyard.contract.statuses import TrialState

AT_A_TIME = 500  # SQLite bounds the variables of a statement


class _Kept(NamedTuple):
    state: str
    ended_at: datetime | None
    trial: PastTrial


class History:
    """The trials of the sweeps that one process steps: nothing that rows do not say too."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[int, _Kept]] = {}

    def of(self, sweep: Sweep) -> list[PastTrial]:
        """Return all trials by number."""
        kept = self._kept.setdefault(sweep.pk, {})
        marks = list(sweep.trials.order_by("number").values_list("number", "state", "ended_at"))
        stale = [number for number, state, ended_at in marks if not _is_known(kept.get(number), state, ended_at)]
        for start in range(0, len(stale), AT_A_TIME):
            for row in sweep.trials.filter(number__in=stale[start : start + AT_A_TIME]):
                kept[row.number] = _Kept(row.state, row.ended_at, past_trial(row))
        return [kept[number].trial for number, _, _ in marks if number in kept]

    def forget(self, live: Iterable[str]) -> None:
        """Keep nothing of sweeps that are not stepped any more."""
        self._kept = {pk: self._kept[pk] for pk in live if pk in self._kept}


def _is_known(kept: _Kept | None, state: str, ended_at: datetime | None) -> bool:
    """Whether the row is as it was: one that is live may have passed another step of its pruner meanwhile."""
    return kept is not None and kept.state == state and ended_at is not None and kept.ended_at == ended_at


def past_trial(row: Trial) -> PastTrial:
    values = tuple(row.values) if row.values else (() if row.value is None else (row.value,))
    step = row.pruned_at_step if row.state == TrialState.PRUNED else row.steps
    return PastTrial(row.number, TrialState(row.state), row.parameters, values, step, row.system_attributes)
