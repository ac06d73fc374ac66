"""Laying the parameters of a trial over the base spec: fields by path, arguments of a script, and variables."""

import json

from trainyard.contract.base import JsonObject
from trainyard.spec.document import merge
from trainyard.spec.problems import Problem, SpecError
from trainyard.spec.sweeps.models import SweepSpec

ARGUMENTS = "task.arguments."
ENVIRONMENT = "task.environment."
SEED = "train.seed"
MAX_NAME = 120


def overlay(base: JsonObject, parameters: JsonObject) -> JsonObject:
    """Return the base with each path set to its value. Below ``task.arguments`` a path names an option (``--lr``) or
    the place of an argument (0, 1, ...). Raises SpecError where a path leads nowhere."""
    document = base
    for path, value in parameters.items():
        if path.startswith(ARGUMENTS):
            document = _with_argument(document, path, as_text(value))
        elif path.startswith(ENVIRONMENT):
            document = _with_variable(document, path.removeprefix(ENVIRONMENT), as_text(value))
        else:
            document = merge(document, {path: value})
    return document


def trial_document(
    sweep: SweepSpec, base: JsonObject, number: int, parameters: JsonObject, seed: int = 0
) -> JsonObject:
    """Return the spec of a trial's run: of the ``seed``-th one, where it has several."""
    document = overlay(base, parameters)
    suffix = f"-{number}" if sweep.seeds == 1 else f"-{number}-{seed}"
    tags = document.get("tags")
    changes: JsonObject = {
        "name": f"{sweep.name[: MAX_NAME - len(suffix)]}{suffix}",
        "tags": [*(tags if isinstance(tags, list) else []), f"sweep:{sweep.name}"[:MAX_NAME]],
    }
    if sweep.project is not None:
        changes["project"] = sweep.project
    if document.get("deadline"):
        changes["deadline"] = ""  # a trial that comes after it would be refused
    if sweep.seeds > 1:
        train = document.get("train")
        first = train.get("seed", 0) if isinstance(train, dict) else 0
        changes[SEED] = first + seed if isinstance(first, int) else first  # which the parser refuses
    return merge(document, changes)


def as_text(value: object) -> str:
    """Return a value as an argument or a variable has it."""
    return value if isinstance(value, str) else json.dumps(value)


def _task(document: JsonObject, path: str) -> JsonObject:
    task = document.get("task")
    if not isinstance(task, dict):
        raise SpecError([Problem(path, "needs a task in the base spec")])
    return task


def _with_argument(document: JsonObject, path: str, value: str) -> JsonObject:
    task = _task(document, path)
    option = path.removeprefix(ARGUMENTS)
    arguments = task.get("arguments") or []
    if not isinstance(arguments, list):
        raise SpecError([Problem(path, "needs task.arguments to be a list")])
    changed = list(arguments)
    if option.isascii() and option.isdigit():
        if len(option) > 9 or int(option) >= len(changed):
            raise SpecError([Problem(path, f"the base spec has {len(changed)} arguments, counted from 0")])
        changed[int(option)] = value
    elif not option.startswith("-"):
        raise SpecError([Problem(path, "must end with an option, such as --lr, or with the place of an argument")])
    else:
        changed = _with_option(changed, option, value)
    return {**document, "task": {**task, "arguments": changed}}


def _with_option(arguments: list[object], option: str, value: str) -> list[object]:
    """Return the arguments with ``--option value`` or ``--option=value`` changed where it is there, else added."""
    for index, argument in enumerate(arguments):
        if argument == option and index + 1 < len(arguments):
            return [*arguments[: index + 1], value, *arguments[index + 2 :]]
        if isinstance(argument, str) and argument.startswith(f"{option}="):
            return [*arguments[:index], f"{option}={value}", *arguments[index + 1 :]]
    return [*arguments, option, value]


def _with_variable(document: JsonObject, name: str, value: str) -> JsonObject:
    task = _task(document, f"{ENVIRONMENT}{name}")
    variables = task.get("environment") or {}
    if not isinstance(variables, dict):
        raise SpecError([Problem(f"{ENVIRONMENT}{name}", "needs task.environment to be a map")])
    return {**document, "task": {**task, "environment": {**variables, name: value}}}
