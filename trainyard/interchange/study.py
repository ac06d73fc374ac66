"""A study: finished trials of a search over hyperparameters, as they go from one tool to another.

A sweep gives one and takes one over REST; ``optuna_storage`` reads and writes one where Optuna keeps its own.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec

from trainyard.contract.base import JsonObject, Seconds, WireStruct
from trainyard.spec.problems import Problem, SpecError, show

MOST_TRIALS = 10_000  # of a study; one request has them all
MOST_PARAMETERS = 200
MOST_REPORTS = 20_000  # of a trial
MOST_OBJECTIVES = 10

Direction = Literal["minimize", "maximize"]
State = Literal["COMPLETE", "PRUNED", "FAILED"]
Value = str | int | float | bool | None
NotFinite = Literal["nan", "inf", "-inf"]  # as JSON has no number for them
Number = float | int | NotFinite
ParameterName = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class Distribution(WireStruct, kw_only=True, omit_defaults=True):
    """Source of a parameter's values: a range with both ends, or choices."""

    kind: Literal["float", "int", "choice"]
    low: float | int | None = None
    high: float | int | None = None
    step: float | int | None = None
    log: bool = False
    values: list[Value] = []


class StudyTrial(WireStruct, kw_only=True):
    """A trial that has ended. ``distributions`` has the same names as ``parameters``."""

    number: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
    state: State
    parameters: Annotated[dict[ParameterName, Value], msgspec.Meta(max_length=MOST_PARAMETERS)] = {}
    distributions: Annotated[dict[ParameterName, Distribution], msgspec.Meta(max_length=MOST_PARAMETERS)] = {}
    values: Annotated[list[Number], msgspec.Meta(max_length=MOST_OBJECTIVES)] = []  # none of a trial that failed
    # Steps and the values that were reported there.
    reports: Annotated[list[tuple[int, Number]], msgspec.Meta(max_length=MOST_REPORTS)] = []
    started_at: Seconds | None = None
    ended_at: Seconds | None = None
    attributes: JsonObject = {}  # the person's own


class Study(WireStruct, kw_only=True):
    """The finished trials of a search, in their order. ``metrics`` are the objectives' names, empty where unknown."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    directions: Annotated[list[Direction], msgspec.Meta(min_length=1, max_length=MOST_OBJECTIVES)]
    metrics: list[str] = []
    trials: Annotated[list[StudyTrial], msgspec.Meta(max_length=MOST_TRIALS)] = []


def number_of(value: float) -> Number:
    """Return the number as a document has it."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def renamed(study: Study, names: Mapping[str, str]) -> Study:
    """Return the study with each parameter called by its new name; others keep theirs. Raises SpecError where two would
    have the same, or where there is no such parameter."""
    known = {name for trial in study.trials for name in trial.parameters}
    if unknown := sorted(names.keys() - known):
        accepted = ", ".join(sorted(known)) or "none: it has no trials"
        raise SpecError([Problem("map", f"the study has no parameter {show(unknown[0])}; it has {accepted}")])
    after = [names.get(name, name) for name in sorted(known)]
    if doubles := sorted({name for name in after if after.count(name) > 1}):
        raise SpecError([Problem("map", f"two parameters would be called {show(doubles[0])}")])
    trials = [
        msgspec.structs.replace(
            trial,
            parameters={names.get(name, name): value for name, value in trial.parameters.items()},
            distributions={names.get(name, name): value for name, value in trial.distributions.items()},
        )
        for trial in study.trials
    ]
    return msgspec.structs.replace(study, trials=trials)


def distribution_problems(study: Study) -> list[Problem]:
    """Return what is wrong inside of the study, which its types do not exclude."""
    found: list[Problem] = []
    for place, trial in enumerate(study.trials):
        path = f"trials.{place}"
        if trial.parameters.keys() != trial.distributions.keys():
            odd = sorted(trial.parameters.keys() ^ trial.distributions.keys())[0]
            found.append(Problem(f"{path}.distributions", f"{show(odd)} is not in both parameters and distributions"))
            continue
        if trial.state == "COMPLETE" and len(trial.values) != len(study.directions):
            found.append(Problem(f"{path}.values", f"{len(trial.values)} for {len(study.directions)} objectives"))
        if trial.state == "COMPLETE" and "nan" in trial.values:
            found.append(Problem(f"{path}.values", "a complete trial has no NaN"))
        for name, value in trial.parameters.items():
            if words := value_problem(trial.distributions[name], value):
                found.append(Problem(f"{path}.parameters.{name}", words))
    return found


def value_problem(distribution: Distribution, value: Value) -> str:
    """Return why the value cannot come from there; empty where it can."""
    if distribution.kind == "choice":
        is_known = any(type(one) is type(value) and one == value for one in distribution.values)
        return "" if is_known else f"{show(value)} is none of {show(distribution.values)}"
    low, high = distribution.low, distribution.high
    if low is None or high is None or low > high:
        return f"a range needs low and high, and has {show(low)} and {show(high)}"
    if distribution.log and low <= 0:
        return f"a logarithmic range begins above 0, not at {show(low)}"
    is_number = isinstance(value, int) or (isinstance(value, float) and distribution.kind == "float")
    if not is_number or isinstance(value, bool | str | None):
        return f"{show(value)} is no {'whole ' if distribution.kind == 'int' else ''}number"
    return "" if low <= float(value) <= high else f"{show(value)} is not from {show(low)} to {show(high)}"


def space_of(trials: Sequence[StudyTrial]) -> dict[str, Distribution]:
    """Return for each parameter one distribution that has all values of all trials. Raises SpecError where a parameter
    is of two kinds."""
    found: dict[str, Distribution] = {}
    for trial in trials:
        for name, one in trial.distributions.items():
            before = found.get(name)
            found[name] = one if before is None or before == one else _together(name, before, one)
    return found


def _together(name: str, first: Distribution, second: Distribution) -> Distribution:
    if first.kind != second.kind or (first.log, first.step) != (second.log, second.step):
        words = f"trials draw it from {show(msgspec.to_builtins(first))} and from {show(msgspec.to_builtins(second))}"
        raise SpecError([Problem(name, f"{words}, which no one range of a sweep is")])
    if first.kind == "choice":
        values = [*first.values]
        values += [one for one in second.values if not any(type(one) is type(it) and one == it for it in values)]
        return msgspec.structs.replace(first, values=values)
    ends = [one for one in (first.low, second.low, first.high, second.high) if one is not None]
    return msgspec.structs.replace(first, low=min(ends), high=max(ends))


def conditions_of(trials: Sequence[StudyTrial]) -> tuple[dict[str, dict[str, Value]], list[str]]:
    """Return for each parameter that some trials have not, on which choice of another parameter it hangs; and the
    parameters for which there is no such choice."""
    names = {name for trial in trials for name in trial.parameters}
    partial = sorted(name for name in names if any(name not in trial.parameters for trial in trials))
    choices = {name for t in trials for name, one in t.distributions.items() if one.kind == "choice"}
    found = {name: _condition(name, sorted(choices.difference(partial)), trials) for name in partial}
    unexplained = [name for name, condition in found.items() if condition is None]
    return {name: condition for name, condition in found.items() if condition is not None}, unexplained


def _condition(name: str, choices: Sequence[str], trials: Sequence[StudyTrial]) -> dict[str, Value] | None:
    for choice in choices:
        with_it = {repr(t.parameters[choice]): t.parameters[choice] for t in trials if name in t.parameters}
        without = {repr(t.parameters[choice]) for t in trials if name not in t.parameters}
        if len(with_it) == 1 and not without & with_it.keys():
            return {choice: next(iter(with_it.values()))}
    return None
