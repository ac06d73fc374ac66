"""Optuna's samplers over our trials. The storage below is Optuna's view of rows that others keep: what it writes is the
one trial that is asked for, and is returned."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from runs.sweeps.search.plain import PastTrial, SamplerQuestion, Suggestion
from trainyard.contract.statuses import TRIAL_FINAL, TrialState
from trainyard.spec.sweeps import Dimension
from trainyard.spec.sweeps.space import filled, is_within

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial, Trial
    from optuna.trial import TrialState as OptunaState

# TPE weighs every trial that it is given: of a long sweep it gets the best and the newest.
MOST_BEST, MOST_NEWEST = 200, 800
GENERATIONS = 4  # of NSGA-II that are read
BEFORE = datetime(2000, 1, 1, tzinfo=UTC)  # no sampler asks when a trial was


def tree_parzen(question: SamplerQuestion) -> Suggestion:
    """TPE (Bergstra et al. 2011), over all dimensions at once, and with what is running counted as bad."""
    import optuna

    def sampler() -> BaseSampler:
        return optuna.samplers.TPESampler(
            seed=question.sampler_seed(),
            n_startup_trials=question.spec.sampler.startup_trials,
            multivariate=True,
            group=any(one.when for one in question.spec.space.values()),
            constant_liar=True,
        )

    return _ask(question, sampler, bounded(question))


def nsga(question: SamplerQuestion) -> Suggestion:
    """NSGA-II (Deb et al. 2002): generations of trials, of which the front goes on."""
    import optuna

    size = question.spec.sampler.population or 50

    def sampler() -> BaseSampler:
        return optuna.samplers.NSGAIISampler(population_size=size, seed=question.sampler_seed())

    return _ask(question, sampler, question.trials[-max(MOST_NEWEST, GENERATIONS * size) :])


def bounded(question: SamplerQuestion) -> Sequence[PastTrial]:
    """Return the trials, of many the best and the newest, by number."""
    trials = question.trials
    if len(trials) <= MOST_BEST + MOST_NEWEST:
        return trials
    newest = trials[-MOST_NEWEST:]
    older = [one for one in trials[:-MOST_NEWEST] if one.state == TrialState.COMPLETE and one.values]
    sign = question.spec.objectives[0].sign
    best = sorted(older, key=lambda one: sign * one.values[0])[:MOST_BEST]
    return [*sorted(best, key=lambda one: one.number), *newest]


def _ask(question: SamplerQuestion, sampler: Callable[[], BaseSampler], trials: Sequence[PastTrial]) -> Suggestion:
    import optuna

    from runs.sweeps.search.optuna_storage import HistoryStorage

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # options that Optuna calls experimental
        directions = [one.direction for one in question.spec.objectives]
        space, by_number = question.spec.space, {one.number: one for one in question.trials}

        def older(number: int) -> FrozenTrial:  # than the newest: NSGA-II names those of its last front
            return frozen_trials(space, [by_number[number]])[0]

        frozen = frozen_trials(space, trials)
        storage = HistoryStorage(directions, frozen, question.number, question.study_state, older)
        trial = optuna.study.Study("sweep", storage, sampler=sampler()).ask()
        parameters = filled(space, lambda path, dimension: _suggested(trial, path, dimension))
    return Suggestion(parameters, storage.draft_attributes(), storage.changed_state())


def frozen_trials(space: Mapping[str, Dimension], trials: Iterable[PastTrial]) -> list[FrozenTrial]:
    """Return the trials that are points of the space as Optuna has them; a trial's id there is its number."""
    from optuna.trial import FrozenTrial

    distributions = {path: distribution_of(one) for path, one in space.items()}
    found = []
    for one in trials:
        if not is_within(space, one.parameters):
            continue
        is_complete = one.state == TrialState.COMPLETE and bool(one.values)
        reported = one.state == TrialState.PRUNED and one.values and one.step is not None
        found.append(
            FrozenTrial(
                number=one.number,
                trial_id=one.number,
                state=_state(one),
                value=None,
                values=list(one.values) if is_complete else None,
                datetime_start=BEFORE,
                datetime_complete=BEFORE if one.state in TRIAL_FINAL else None,
                params={path: choice_of(space[path], value) for path, value in one.parameters.items()},
                distributions={path: distributions[path] for path in one.parameters},
                user_attrs={},
                system_attrs=dict(one.attributes),
                intermediate_values={one.step: one.values[0]} if reported and one.step is not None else {},
            )
        )
    return found


def _state(trial: PastTrial) -> OptunaState:
    from optuna.trial import TrialState as States

    return {
        TrialState.WAITING: States.RUNNING,  # its parameters are decided: for a sampler it is on its way
        TrialState.RUNNING: States.RUNNING,
        TrialState.COMPLETE: States.COMPLETE if trial.values else States.FAIL,
        TrialState.PRUNED: States.PRUNED,
        TrialState.FAILED: States.FAIL,
    }[trial.state]


def distribution_of(dimension: Dimension) -> BaseDistribution:
    """Return Optuna's word for the dimension."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if dimension.values is not None:
        return CategoricalDistribution([choice_of(dimension, one) for one in dimension.values])
    low, high = dimension.bounds
    if dimension.whole:
        return IntDistribution(int(low), int(high), log=dimension.log, step=int(dimension.step or 1))
    return FloatDistribution(low, high, log=dimension.log, step=dimension.step)


def choice_of(dimension: Dimension, value: Any) -> Any:
    """Return the value as Optuna holds it: choices that it cannot hold, or not tell apart, stand there as JSON."""
    if dimension.values is None or {type(one) for one in dimension.values} in ({str}, {int}, {float}):
        return value
    return json.dumps(value, sort_keys=True)


def _suggested(trial: Trial, path: str, dimension: Dimension) -> Any:
    if dimension.values is not None:
        choices = [choice_of(dimension, one) for one in dimension.values]
        return dimension.values[choices.index(trial.suggest_categorical(path, choices))]
    low, high = dimension.bounds
    if dimension.whole:
        return trial.suggest_int(path, int(low), int(high), log=dimension.log, step=int(dimension.step or 1))
    return trial.suggest_float(path, low, high, log=dimension.log, step=dimension.step)
