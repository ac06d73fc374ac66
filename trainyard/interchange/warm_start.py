"""The document of a sweep that goes on from a study: its space, its objectives, and a base spec with what is alike."""

from collections.abc import Sequence
from typing import Any

from trainyard.contract.base import JsonObject
from trainyard.interchange.study import Distribution, Study, conditions_of, space_of
from trainyard.spec.problems import Problem, SpecError, show
from trainyard.spec.sweeps.overlay import overlay


def warm_start(
    study: Study, base: JsonObject, *, metrics: Sequence[str], trials: int, name: str, sampler: str = "tpe"
) -> tuple[JsonObject, list[str]]:
    """Return a sweep over the base whose space has all values of the study, with ``trials`` more to come, and sentences
    about what the study leaves open.

    Parameters are called as paths of the base. Raises SpecError where the study has none, and where ``metrics`` are
    not as many as its directions.
    """
    if not any(trial.parameters for trial in study.trials):
        raise SpecError([Problem("study", f"{show(study.name)} has no finished trial with parameters")])
    space, conditions, unexplained = {}, *conditions_of(study.trials)
    for path, one in space_of(study.trials).items():
        if (only := _only_value(one)) is not _SEVERAL:
            base = overlay(base, {path: only})
        else:
            space[path] = dimension_of(one)
    for path, condition in conditions.items():
        if path in space and all(parent in space for parent in condition):
            space[path]["when"] = condition
    remarks = [
        f"{path} is missing in some trials of the study, and no choice of another parameter says in which: it always "
        "varies here; write a `when` for it where it should not"
        for path in unexplained
    ]
    if not space:
        raise SpecError([Problem("study", "each of its parameters has one value, so that nothing is left to search")])
    document: JsonObject = {
        "name": name or study.name,
        "base": base,
        "space": space,
        "objective": _objectives(study, metrics),
        "budget": {"trials": trials},  # those of the study are not counted
        "sampler": sampler,
    }
    return document, remarks


def dimension_of(one: Distribution) -> JsonObject:
    """Return the distribution as an entry of a space."""
    if one.kind == "choice":
        return {"values": list(one.values)}
    found: JsonObject = {"low": one.low, "high": one.high, "int": one.kind == "int", "log": one.log, "step": one.step}
    return {name: value for name, value in found.items() if value is not False and value is not None}


def distribution_of(entry: JsonObject) -> Distribution:
    """Return the entry of a resolved sweep's space as a distribution."""
    if entry.get("values") is not None:
        return Distribution(kind="choice", values=list(entry["values"]))
    is_whole = bool(entry.get("int"))
    ends = [int(entry[name]) if is_whole else float(entry[name]) for name in ("low", "high")]
    step = entry.get("step")
    if step is not None:
        step = int(step) if is_whole else float(step)
    return Distribution(
        kind="int" if is_whole else "float",
        low=ends[0],
        high=ends[1],
        step=None if is_whole and step == 1 else step,
        log=bool(entry.get("log")),
    )


_SEVERAL = object()


def _only_value(one: Distribution) -> Any:
    """Return the value of a dimension that has just one."""
    if one.kind == "choice":
        return one.values[0] if len(one.values) == 1 else _SEVERAL
    return one.low if one.low == one.high else _SEVERAL


def _objectives(study: Study, metrics: Sequence[str]) -> Any:
    names = list(metrics) or study.metrics
    if len(names) != len(study.directions):
        words = f"{show(study.name)} has {len(study.directions)} objectives, and {len(names)} metrics are named"
        raise SpecError([Problem("metric", f"{words}: say with --metric what a run logs for each, such as val/loss")])
    pairs = zip(names, study.directions, strict=True)
    found = [{"metric": metric, "direction": direction} for metric, direction in pairs]
    return found[0] if len(found) == 1 else found
