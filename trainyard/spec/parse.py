"""From a document to a Spec: what no document may hold, what is not built, the fields, the rules across them."""

import json
from typing import Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError

from trainyard.contract.base import JsonObject, SpecDocument
from trainyard.spec.elastic import rule_problems
from trainyard.spec.models import KINDS, LanguageModelSpec, RecipeSpec, Spec
from trainyard.spec.problems import Problem, SpecError, problems_of, show
from trainyard.spec.sections.resources import NodeRange
from trainyard.spec.sections.tasks import PROGRAMS
from trainyard.spec.sections.watch import MOST_RULES

MAX_SPEC_BYTES = 256 * 1024
MAX_ARRAY_BYTES = 64 * 2**20
MAX_VALUES = 50_000
MAX_DEPTH = 20
RECIPES = tuple(name for name in KINDS if name != "script")


def parse_spec(document: object) -> Spec:
    """Return the Spec that ``document`` describes. Raises SpecError, and nothing else, with all problems found."""
    spec = _fields_of(document)
    if broken := list(rule_problems(spec)):
        raise SpecError(_first_per_path(broken))
    num_bytes = len(json.dumps(spec.resolved()).encode())
    if num_bytes > MAX_SPEC_BYTES:
        raise SpecError([Problem("", f"the spec has {num_bytes:,} bytes; at most {MAX_SPEC_BYTES:,} are accepted")])
    if spec.array.launches_many and num_bytes * spec.array.size > MAX_ARRAY_BYTES:
        words = f"{spec.array.size} specs of {num_bytes:,} bytes; at most {MAX_ARRAY_BYTES:,} in all are accepted"
        raise SpecError([Problem("array.size", words)])
    return spec


def field_problems(document: object) -> list[Problem]:
    """Return what is wrong with single fields of ``document``; the rules across them are not looked at."""
    try:
        _fields_of(document)
    except SpecError as error:
        return error.errors
    return []


def _fields_of(document: object) -> Spec:
    """Return the Spec with all fields valid. Raises SpecError."""
    if not isinstance(document, dict):
        raise SpecError([Problem("", f"a spec is a map with a name and a task, not {show(document)}")])
    refuse_unsafe(document)
    try:
        kind = _kind_of(document)
    except SpecError as unknown:
        common = {name: value for name, value in document.items() if name in Spec.model_fields}
        try:
            Spec.model_validate(common)
        except ValidationError as error:
            unknown = SpecError([*unknown.errors, *_first_per_path(problems_of(error, _accepted_at(Spec)))])
        raise unknown from None
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        raise SpecError(_tell_of_training(kind, _first_per_path(problems_of(error, _accepted_at(kind))))) from None


def read_spec(document: SpecDocument) -> Spec:
    """Return the Spec of a resolved document, as a rank gets it from a server that has checked it by ``parse_spec``.

    The server may have another version: a field that it does not know takes its default, and one that is unknown here
    is ignored. Raises SpecError for a value that a field does not accept.
    """
    kind = _kind_of(document)
    try:
        return kind.model_validate(document, extra="ignore")
    except ValidationError as error:
        raise SpecError(_first_per_path(problems_of(error, {}))) from None


def json_schema() -> JsonObject:
    schema: JsonObject = TypeAdapter(Union[*KINDS.values()]).json_schema()  # type: ignore[arg-type]  # made of values
    return schema


def _kind_of(document: JsonObject) -> type[Spec]:
    task = document.get("task")
    if not isinstance(task, dict):
        return LanguageModelSpec  # which says what is wrong with it
    own = [name for name in PROGRAMS if name in task]
    if "recipe" in task and own:
        raise SpecError([Problem("task", f"has both a recipe and a {own[0]}; exactly one is accepted")])
    if "recipe" not in task and not own:
        words = "has no recipe and no script (nor a module or a command); exactly one is required"
        raise SpecError([Problem("task", words)])
    if own:
        return KINDS["script"]
    name = task["recipe"]
    if not isinstance(name, str) or name not in RECIPES:
        words = f"must be {', '.join(RECIPES[:-1])} or {RECIPES[-1]}, not {show(name)}"
        raise SpecError([Problem("task.recipe", words)])
    return KINDS[name]


def refuse_unsafe(document: JsonObject) -> None:
    """Raise SpecError for what databases and terminals choke on, however deep it lies, and for cycles of aliases."""
    waiting: list[tuple[str, int, object]] = [("", 0, document)]
    num_seen = 0
    while waiting:
        path, depth, value = waiting.pop()
        num_seen += 1
        if depth > MAX_DEPTH:
            raise SpecError([Problem("", f"the spec is nested more than {MAX_DEPTH} levels deep")])
        if num_seen > MAX_VALUES:
            raise SpecError([Problem("", f"the spec has more than {MAX_VALUES:,} values")])
        if isinstance(value, str) and _is_unsafe(value):
            raise SpecError([Problem(path, f"has a NUL or half a character: {show(value)}")])
        if isinstance(value, dict):
            for name, below in value.items():
                if not isinstance(name, str) or _is_unsafe(name):
                    raise SpecError([Problem(path, f"has the key {name!a:.60}; a key is plain text")])
                waiting.append((f"{path}.{name}" if path else name, depth + 1, below))
        elif isinstance(value, list):
            waiting.extend((f"{path}.{index}", depth + 1, below) for index, below in enumerate(value))


def _is_unsafe(text: str) -> bool:
    return "\0" in text or any("\ud800" <= char <= "\udfff" for char in text)


def _first_per_path(problems: list[Problem]) -> list[Problem]:
    kept: dict[str, Problem] = {}
    for problem in problems:
        kept.setdefault(problem.path, problem)
    return list(kept.values())


def _tell_of_training(kind: type[Spec], problems: list[Problem]) -> list[Problem]:
    """Say why sections are refused that other kinds of spec have."""
    if "environment" not in kind.model_fields:
        words = "is for a script: a recipe runs in Trainyard's own environment; leave it out"
        problems = [one._replace(message=words) if one.path == "environment" else one for one in problems]
    if issubclass(kind, RecipeSpec):
        return problems
    sections = RecipeSpec.model_fields.keys() - kind.model_fields.keys()
    who = "a script, which decides this by itself" if kind is KINDS["script"] else "a benchmark, which trains nothing"
    return [
        Problem(problem.path, f"means nothing to {who}; leave it out") if problem.path in sections else problem
        for problem in problems
    ]


def _accepted_at(kind: type[BaseModel], path: str = "") -> dict[str, list[str]]:
    accepted = {path: list(kind.model_fields)}
    for name, info in kind.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            accepted |= _accepted_at(info.annotation, f"{path}.{name}" if path else name)
        entry = get_args(info.annotation)[0] if get_origin(info.annotation) is list else None
        if isinstance(entry, type) and issubclass(entry, BaseModel):  # a list of maps
            for number in range(MOST_RULES):
                accepted |= _accepted_at(entry, f"{path}.{name}.{number}" if path else f"{name}.{number}")
    return accepted | ({"resources.nodes": list(NodeRange.model_fields)} if not path else {})
