"""W&B's ``sweep.yaml`` as a sweep of ours, and a remark on each thing in it that has no counterpart here.

What W&B's words mean: its reference of the sweep configuration. A word that is not known is named, never guessed.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from trainyard.contract.base import JsonObject
from trainyard.spec.parse import refuse_unsafe
from trainyard.spec.problems import Problem, SpecError, show
from trainyard.spec.sweeps.overlay import as_text

SPREAD = 3.0  # standard deviations on either side that a range takes of a normal distribution
NORMAL = ("normal", "q_normal", "log_normal", "q_log_normal")

Entry = Callable[[str, JsonObject], JsonObject]
DEFAULT_COMMAND = ["${env}", "${interpreter}", "${program}", "${args}"]
PLACES = {
    "${args}": "",
    "${args_no_hyphens}": "hands parameters over as name=value",
    "${args_no_boolean_flags}": "hands what is true over as --name alone, and what is false not at all",
    "${args_json}": "hands parameters over as JSON",
    "${args_json_file}": "hands parameters over in a file with JSON",
}
LAUNCHERS = ("torchrun", "accelerate", "mpirun", "deepspeed", "srun")
VARIABLE = re.compile(r"\$\{envvar:([A-Za-z_][A-Za-z0-9_]*)\}")
DEFAULT_TRIALS = 100

METHODS = {"bayes": "gp", "random": "random", "grid": "grid"}
ARGUMENTS = "task.arguments."  # where the space names a program's options
SLUG = re.compile(r"[A-Za-z0-9_-]{1,100}")
WITHOUT_USE = {
    "description": "a sweep has a name and no description",
    "entity": "a sweep belongs to a project; choose it with project",
    "controller": "the server controls every sweep",
    **dict.fromkeys(("launch", "job", "queue", "scheduler", "image_uri"), "the nodes of a cluster run the trials"),
    **dict.fromkeys(("$schema", "version"), "the document says nothing with it"),
}
KNOWN = ("program", "command", "project", "name", "method", "metric", "parameters", "early_terminate", "run_cap")


def translate(document: object) -> tuple[JsonObject, list[str]]:
    """Return W&B's document as ours, and sentences about what it had beyond that. Raises SpecError, naming path and
    value, for what is no sweep of W&B."""
    if not isinstance(document, dict):
        raise SpecError([Problem("", f"a sweep is a map with method and parameters, not {show(document)}")])
    refuse_unsafe(document)
    remarks = [f"{name}: {words}" for name, words in WITHOUT_USE.items() if name in document]
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
    found["sampler"] = _sampler(document.get("method"))
    if pruner := _pruner(document.get("early_terminate"), remarks):
        found["pruner"] = pruner
    return found, remarks


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


def _sampler(method: object) -> str:
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
    remarks.append("early_terminate: W&B counts values that were logged, asha counts steps: check pruner.min")
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


# The program and the command of W&B's ``sweep.yaml`` as the spec of a run.


def task_of(
    document: JsonObject, space: Mapping[str, JsonObject], constants: JsonObject, remarks: list[str]
) -> JsonObject:
    """Return the task of a run. Each option is in it as W&B writes it, ``--name=value``: what varies is put there."""
    program = document.get("program")
    command = document.get("command", DEFAULT_COMMAND)
    if not isinstance(command, list) or not all(isinstance(one, str | int | float) for one in command):
        raise SpecError([Problem("command", f"must be a list of words, not {show(command)}")])
    words = [str(one) for one in command if one != "${env}"]
    if "${program}" in words and not (isinstance(program, str) and program):
        raise SpecError([Problem("program", f"must be the path of a program, not {show(program)}")])
    _remark_on_arguments(words, remarks)
    place = next((place for place, one in enumerate(words) if one in PLACES), len(words))
    before = [str(program) if one == "${program}" else one for one in words[:place]]
    behind = [one for one in words[place + 1 :] if one not in PLACES]
    values = {**constants, **{name: first(entry) for name, entry in space.items()}}
    options = [f"--{name}={as_text(value)}" for name, value in values.items()]
    if any(isinstance(one, bool) for one in values.values()):
        remarks.append("parameters: true and false are handed over in these words, where W&B writes True and False")
    own, task = _program(before, remarks)
    task["arguments"] = _without_variables([*own, *options, *behind], remarks)
    return {**task, "code": "."}


def _remark_on_arguments(words: list[str], remarks: list[str]) -> None:
    given = [one for one in words if one in PLACES]
    if not given:
        remarks.append(
            "command: has no ${args}, so the program reads wandb.config; here it is given each parameter as "
            "--name=value, which it must read"
        )
    for one in given:
        if PLACES[one]:
            remarks.append(f"command: {one} {PLACES[one]}; here each is --name=value, which the program must read")


def _program(words: list[str], remarks: list[str]) -> tuple[list[str], JsonObject]:
    """Return the words behind the program, and the task without them."""
    interpreted = words[1:] if words[:1] in (["${interpreter}"], ["python"], ["python3"]) else words
    if interpreted[:1] and interpreted[0].endswith(".py"):
        return interpreted[1:], {"script": interpreted[0]}
    if interpreted[:1] == ["-m"] and len(interpreted) > 1 and interpreted is not words:
        return interpreted[2:], {"module": interpreted[1]}
    command = ["python" if one == "${interpreter}" else one for one in words]
    if not command:
        raise SpecError([Problem("command", "has no program")])
    if command[0] in LAUNCHERS:
        remarks.append(
            f"command: {command[0]} is kept as it is; to have Trainyard start the processes, name the script and set "
            "resources.nodes and resources.processes_per_node"
        )
    return [], {"command": _without_variables(command, remarks)}


def _without_variables(words: list[str], remarks: list[str]) -> list[str]:
    for found in filter(None, map(VARIABLE.fullmatch, words)):
        remarks.append(f"command: {found[0]} is a variable of the agent; set task.environment.{found[1]} here")
    return [VARIABLE.sub(r"${\1}", one) if VARIABLE.fullmatch(one) else one for one in words]


# The parameters of W&B's ``sweep.yaml`` as dimensions of a space.


def space_of_parameters(parameters: object, remarks: list[str]) -> tuple[dict[str, JsonObject], JsonObject]:
    """Return what varies, and what has one value, by the names that the program's arguments have."""
    if not isinstance(parameters, dict) or not parameters:
        raise SpecError([Problem("parameters", f"must be a map of parameters, not {show(parameters)}")])
    space: dict[str, JsonObject] = {}
    constants: JsonObject = {}
    for name, given in _flat(parameters, "", remarks):
        path = f"parameters.{name}"
        if not isinstance(given, dict):
            raise SpecError([Problem(path, f"must be a map with value, values or a distribution, not {show(given)}")])
        if "value" in given:
            constants[name] = given["value"]
            continue
        entry = _entry(path, given, remarks)
        if len(entry.get("values", [0, 0])) == 1 or ("low" in entry and entry["low"] == entry["high"]):
            constants[name] = first(entry)
        else:
            space[name] = entry
    if not space:
        raise SpecError([Problem("parameters", "nothing varies: every parameter has one value")])
    return space, constants


def _flat(parameters: JsonObject, above: str, remarks: list[str]) -> Iterator[tuple[str, Any]]:
    for key, given in parameters.items():
        name = f"{above}{key}"
        if isinstance(given, dict) and isinstance(given.get("parameters"), dict):
            remarks.append(
                f"parameters.{name}: W&B nests these in wandb.config; here each is an argument of its own, --{name}.…"
            )
            yield from _flat(given["parameters"], f"{name}.", remarks)
        else:
            yield name, given


def _entry(path: str, given: JsonObject, remarks: list[str]) -> JsonObject:
    kind = given.get("distribution") or _guess(path, given)
    if kind in ("categorical", "categorical_w_probabilities"):
        return _choices(path, given, remarks)
    if kind == "constant":
        raise SpecError([Problem(path, "is constant and has no value")])
    if kind in NORMAL:
        return _normal(path, str(kind), given, remarks)
    make, remark = RANGES.get(str(kind), (None, ""))
    if make is None:
        accepted = ", ".join(("categorical", "constant", *RANGES, *NORMAL))
        raise SpecError([Problem(f"{path}.distribution", f"{show(kind)} has no counterpart; known are {accepted}")])
    remarks += [remark.format(path=path, kind=kind)] if remark else []
    return make(path, given)


def _guess(path: str, given: JsonObject) -> str:
    """Return what W&B takes where no distribution is named."""
    if "values" in given:
        return "categorical"
    if "mu" in given or "sigma" in given:
        return "normal"
    if "min" in given and "max" in given:
        is_whole = all(isinstance(given[one], int) and not isinstance(given[one], bool) for one in ("min", "max"))
        return "int_uniform" if is_whole else "uniform"
    raise SpecError([Problem(path, f"{show(given)} has neither value, values, min and max, nor a distribution")])


def _choices(path: str, given: JsonObject, remarks: list[str]) -> JsonObject:
    values = given.get("values")
    if not isinstance(values, list) or not values:
        raise SpecError([Problem(f"{path}.values", f"must be a list of values, not {show(values)}")])
    if any(isinstance(one, list | dict) for one in values):
        raise SpecError([Problem(f"{path}.values", f"has a list or a map, which no argument is: {show(values)}")])
    if "probabilities" in given:
        remarks.append(f"{path}.probabilities: choices have no probabilities here; each is equally likely at first")
    return {"values": values}


def number(path: str, given: JsonObject, name: str, default: float | None = None) -> float:
    value = given.get(name, default)
    if isinstance(value, str):  # YAML 1.1 reads 1e-5 as text
        with suppress(ValueError):
            value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SpecError([Problem(f"{path}.{name}", f"must be a number, not {show(value)}")])
    return value


def _uniform(path: str, given: JsonObject) -> JsonObject:
    return {"low": float(number(path, given, "min")), "high": float(number(path, given, "max"))}


def _int_uniform(path: str, given: JsonObject) -> JsonObject:
    return {"low": int(number(path, given, "min")), "high": int(number(path, given, "max")), "int": True}


def _log_uniform_values(path: str, given: JsonObject) -> JsonObject:
    found = _uniform(path, given)
    if found["low"] <= 0:
        raise SpecError([Problem(f"{path}.min", f"a logarithmic range begins above 0, not at {show(found['low'])}")])
    return {**found, "log": True}


def _log_uniform(path: str, given: JsonObject) -> JsonObject:
    """W&B's ends are exponents of e."""
    low, high = number(path, given, "min"), number(path, given, "max")
    if max(abs(low), abs(high)) > 300:
        raise SpecError([Problem(path, f"exp({low:g}) and exp({high:g}) are no ends of a range")])
    return {"low": math.exp(low), "high": math.exp(high), "log": True}


NOT_ROUNDED = "{path}.q: a logarithmic range has no steps here; its values are not rounded"
INVERSE = (
    "{path}.distribution: {kind} (denser near the upper end) has no counterpart; it is taken as logarithmic, which is "
    "denser near the lower end"
)
RANGES: dict[str, tuple[Entry, str]] = {
    "uniform": (_uniform, ""),
    "int_uniform": (_int_uniform, ""),
    "q_uniform": (lambda path, given: {**_uniform(path, given), "step": float(number(path, given, "q", 1.0))}, ""),
    "log_uniform": (_log_uniform, ""),
    "log_uniform_values": (_log_uniform_values, ""),
    "q_log_uniform": (_log_uniform, NOT_ROUNDED),
    "q_log_uniform_values": (_log_uniform_values, NOT_ROUNDED),
    "inv_log_uniform": (_log_uniform, INVERSE),
    "inv_log_uniform_values": (_log_uniform_values, INVERSE),
}


def _normal(path: str, kind: str, given: JsonObject, remarks: list[str]) -> JsonObject:
    mean, deviation = number(path, given, "mu", 0.0), number(path, given, "sigma", 1.0)
    low, high = mean - SPREAD * deviation, mean + SPREAD * deviation
    if "log" in kind:
        low, high = math.exp(min(low, 300.0)), math.exp(min(high, 300.0))
    words = f"it is taken as {'logarithmic' if 'log' in kind else 'uniform'} from {low:.4g} to {high:.4g}"
    words = f"{kind} has no counterpart; {words}, three standard deviations on either side"
    remarks.append(f"{path}.distribution: {words}")
    step = {"step": float(number(path, given, "q", 1.0))} if kind.startswith("q_") else {}
    return {"low": low, "high": high, **({"log": True} if "log" in kind else step)}


def first(entry: JsonObject) -> Any:
    """Return the value of a dimension that a base spec has in its place."""
    return entry["values"][0] if "values" in entry else entry["low"]
