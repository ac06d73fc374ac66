"""Optuna's storage over trials that are given: imported where a sampler of Optuna's is asked, and nowhere else."""

import copy
from collections.abc import Callable, Container, Sequence
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from trainyard.contract.base import JsonObject

STUDY, STUDY_ID = "sweep", 0


class HistoryStorage(BaseStorage):
    """One study: past trials, which nobody changes, and the draft of the one that is asked for. A trial's id is its
    number in the sweep."""

    def __init__(
        self,
        directions: Sequence[str],
        trials: Sequence[FrozenTrial],
        number: int,
        study_state: JsonObject,
        older: Callable[[int], FrozenTrial],
    ) -> None:
        self._directions = [StudyDirection[one.upper()] for one in directions]
        self._trials = list(trials)
        self._by_id = {one.number: one for one in trials}
        self._older, self._number = older, number
        self._state = copy.deepcopy(study_state)
        self._has_changed = False
        self._draft: FrozenTrial | None = None

    def draft_attributes(self) -> JsonObject:
        """Return what the sampler wrote about the new trial."""
        return dict(self._open(self._number).system_attrs)

    def changed_state(self) -> JsonObject | None:
        """Return what the sampler keeps with the study; None where it has written nothing."""
        return self._state if self._has_changed else None

    # Questions of a sampler

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        found = [*self._trials, *([self._draft] if self._draft is not None else [])]
        if states is not None:
            found = [one for one in found if one.state in states]
        return copy.deepcopy(found) if deepcopy else found

    def get_trial(self, trial_id: int) -> FrozenTrial:
        if self._draft is not None and trial_id == self._number:
            return self._draft
        return self._by_id[trial_id] if trial_id in self._by_id else self._older(trial_id)

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        assert self._draft is None, "one trial is asked for"
        self._draft = FrozenTrial(
            number=self._number, trial_id=self._number, state=TrialState.RUNNING, value=None, datetime_start=None,
            datetime_complete=None, params={}, distributions={}, user_attrs={}, system_attrs={}, intermediate_values={},
        )  # fmt: skip
        return self._number

    def set_trial_param(
        self, trial_id: int, param_name: str, param_value_internal: float, distribution: BaseDistribution
    ) -> None:
        draft = self._open(trial_id)
        draft.params = {**draft.params, param_name: distribution.to_external_repr(param_value_internal)}
        draft.distributions = {**draft.distributions, param_name: distribution}

    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> None:
        draft = self._open(trial_id)
        draft.system_attrs = {**draft.system_attrs, key: value}

    def get_study_directions(self, study_id: int) -> list[StudyDirection]:
        return self._directions

    def get_study_system_attrs(self, study_id: int) -> dict[str, Any]:
        return dict(self._state)

    def set_study_system_attr(self, study_id: int, key: str, value: Any) -> None:
        self._state[key] = value
        self._has_changed = True

    def get_study_id_from_name(self, study_name: str) -> int:
        return STUDY_ID

    def get_study_name_from_id(self, study_id: int) -> str:
        return STUDY

    def get_study_user_attrs(self, study_id: int) -> dict[str, Any]:
        return {}

    # Decided elsewhere: studies are sweeps, and a trial ends with its run

    def _never(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    create_new_study = delete_study = set_study_user_attr = get_all_studies = _never
    set_trial_state_values = set_trial_intermediate_value = set_trial_user_attr = _never

    def _open(self, trial_id: int) -> FrozenTrial:
        assert self._draft is not None and trial_id == self._number, "only the new trial is written"
        return self._draft
