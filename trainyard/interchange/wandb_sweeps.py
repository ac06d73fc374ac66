"""W&B's ``sweep.yaml`` as a sweep of ours, and a remark on each thing in it that has no counterpart here.

What W&B's words mean: its reference of the sweep configuration. A word that is not known is named, never guessed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from trainyard.contract.base import JsonObject
from trainyard.interchange.wandb_command import task_of
from trainyard.interchange.wandb_parameters import number, space_of_parameters
from trainyard.spec.problems import Problem, SpecError, show

MOST_VALUES = 10_000
MOST_DEPTH = 12
DEFAULT_TRIALS = 100

METHODS = {"bayes": "gp", "random": "random", "grid": "grid"}
ARGUMENTS = "task.arguments."  # where the space names a program's options
SLUG = re.compile(r"[A-Za-z0-9_-]{1,100}")
WITHOUT_USE = {
    "description": "a sweep has a name and no description",
    "entity": "a sweep belongs to a project; choose it with project",
    "controller": "the server controls every sweep",
    "launch": "the nodes of a cluster run the trials",
    "job": "the nodes of a cluster run the trials",
    "queue": "the nodes of a cluster run the trials",
    "scheduler": "the nodes of a cluster run the trials",
    "image_uri": "the nodes of a cluster run the trials",
    "$schema": "the document says nothing with it",
    "version": "the document says nothing with it",
}
KNOWN = ("program", "command", "project", "name", "method", "metric", "parameters", "early_terminate", "run_cap")


class Translation(NamedTuple):
    """The document of a sweep, and sentences about what W&B's had beyond it."""

    document: JsonObject
    remarks: list[str]


def translate(document: object) -> Translation:
    """Return W&B's document as ours. Raises SpecError, naming path and value, for what is no sweep of W&B."""
    if not isinstance(document, dict):
        raise SpecError([Problem("", f"a sweep is a map with method and parameters, not {show(document)}")])
    _refuse_large(document)
    remarks: list[str] = []
    remarks += [f"{name}: {words}" for name, words in WITHOUT_USE.items() if name in document]
    unknown = [name for name in document if name not in KNOWN and name not in WITHOUT_USE]
    remarks += [f"{name}: W&B's reference has no such word; it is left out" for name in map(str, unknown)]
    space, constants = space_of_parameters(document.get("parameters"), remarks)
    name = str(document.get("name") or "sweep")[:100]
    base: JsonObject = {"name": name, "task": task_of(document, space, constants, remarks)}
    found: JsonObject = {"name": name}
    project = document.get("project")
    if isinstance(project, str) and SLUG.fullmatch(project):
        found["project"] = project
    elif project is not None:
        remarks.append(f"project: {show(project)} is no name of a project here (letters, digits, - and _); left out")
    found["base"] = base
    found["space"] = {f"{ARGUMENTS}--{name}": entry for name, entry in space.items()}
    found["objective"] = _objective(document.get("metric"), remarks)
    found["budget"] = {"trials": _trials(document, space, remarks)}
    found["sampler"] = _sampler(document.get("method"), remarks)
    pruner = _pruner(document.get("early_terminate"), remarks)
    if pruner:
        found["pruner"] = pruner
    return Translation(found, remarks)


def _refuse_large(document: object) -> None:
    """YAML's aliases make a small file a huge document: what is walked is counted."""
    waiting: list[tuple[int, object]] = [(0, document)]
    num_seen = 0
    while waiting:
        depth, value = waiting.pop()
        num_seen += 1
        if num_seen > MOST_VALUES:
            raise SpecError([Problem("", f"it has more than {MOST_VALUES:,} values")])
        if depth > MOST_DEPTH:
            raise SpecError([Problem("", f"it is nested more than {MOST_DEPTH} levels deep")])
        if isinstance(value, dict):
            waiting += [(depth + 1, below) for below in value.values()]
        elif isinstance(value, list):
            waiting += [(depth + 1, below) for below in value]


def _objective(metric: object, remarks: list[str]) -> JsonObject:
    if not isinstance(metric, dict) or not metric.get("name"):
        raise SpecError([Problem("metric.name", f"must name what is compared, not {show(metric)}")])
    goal = metric.get("goal", "minimize")
    if goal not in ("minimize", "maximize"):
        raise SpecError([Problem("metric.goal", f"must be minimize or maximize, not {show(goal)}")])
    for name in metric:
        if name == "target":
            remarks.append("metric.target: a sweep here does not end at a value; its budget ends it")
        elif name not in ("name", "goal"):
            remarks.append(f"metric.{name}: has no counterpart")
    return {"metric": str(metric["name"]), "direction": goal}


def _trials(document: JsonObject, space: Mapping[str, JsonObject], remarks: list[str]) -> int:
    cap = document.get("run_cap")
    if isinstance(cap, int) and not isinstance(cap, bool) and cap > 0:
        return cap
    if cap is not None:
        raise SpecError([Problem("run_cap", f"must be a whole number above 0, not {show(cap)}")])
    if document.get("method") == "grid" and all("values" in one for one in space.values()):
        return math.prod(len(one["values"]) for one in space.values())
    remarks.append(f"run_cap: W&B goes on until somebody stops it; here budget.trials is {DEFAULT_TRIALS}")
    return DEFAULT_TRIALS


def _sampler(method: object, remarks: list[str]) -> str:
    if method not in METHODS:
        raise SpecError([Problem("method", f"must be {', '.join(METHODS)}, not {show(method)}")])
    return METHODS[str(method)]


def _pruner(given: object, remarks: list[str]) -> JsonObject:
    """W&B's hyperband ends a run at its brackets where it is not among the best 1/eta: successive halving without
    waiting, as asha."""
    if given is None:
        return {}
    if not isinstance(given, dict) or given.get("type") not in ("hyperband", "envelope"):
        raise SpecError([Problem("early_terminate.type", f"must be hyperband, not {show(given)}")])
    if given["type"] == "envelope":
        remarks.append("early_terminate: envelope has no counterpart; the median pruner is taken in its place")
        return {"name": "median"}
    eta = number("early_terminate", given, "eta", 3)
    remarks.append(
        "early_terminate: W&B counts values of the metric that were logged, asha counts steps: check pruner.min"
    )
    if not given.get("strict"):
        remarks.append("early_terminate.strict: asha stops whatever is not among the best of its rung, as with strict")
    found: JsonObject = {"name": "asha", "factor": max(2, round(eta))}
    if found["factor"] != eta:
        remarks.append(f"early_terminate.eta: {eta:g} is no whole number from 2 on; {found['factor']} is taken")
    if "min_iter" in given:
        return {**found, "min": max(1, int(number("early_terminate", given, "min_iter")))}
    largest, brackets = number("early_terminate", given, "max_iter"), number("early_terminate", given, "s", 2)
    if not 0 < brackets <= 50:
        raise SpecError([Problem("early_terminate.s", f"must be a number of brackets, not {show(brackets)}")])
    return {**found, "min": max(1, int(largest / eta**brackets)), "max": max(1, int(largest))}
