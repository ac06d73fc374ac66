"""A spec as a form: from a document to the text in each field, and back. What is valid, trainyard.spec alone knows."""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from trainyard.spec import KINDS, FieldInfo, Problem, fields_of, form_fields, merge

GROUPS = {
    "what": ("What", "The training itself."),
    "where": ("Where", "Machines that train together."),
    "parallel": ("Parallel", "How the ranks share the work."),
    "train": ("Train", "How it learns."),
    "safety": ("Safety", "What happens when something breaks."),
}
TASKS = tuple(KINDS)
RECIPE = "task.recipe"  # which the kind of task says
WORDS = "task.arguments"  # a command line; every other list has commas between its entries
_WHOLE = re.compile(r"[+-]?\d+")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Option(NamedTuple):
    """``tasks`` are the kinds of task that have it, with spaces between them; none: all that have the field."""

    value: str
    label: str
    tasks: str = ""


class Control(NamedTuple):
    """One field as the page draws it. ``only`` has the classes that hide it from kinds of task that do not have it.

    A field that needs another (``info.needs``) is hidden while that one says something else, and keeps what was typed.
    """

    info: FieldInfo
    id: str
    widget: str  # text, number, select, lines, checkbox
    value: str
    options: list[Option]
    problem: str
    only: str
    is_hidden: bool
    needed_values: str  # of the field that it needs, with spaces between them
    needed_default: str  # what that field means when it is empty


class Section(NamedTuple):
    key: str
    title: str
    help: str
    only: str
    controls: list[Control]
    advanced: list[Control]
    fixed: list[Control]  # what has one accepted value in this version
    is_open: bool


class TaskKind(NamedTuple):
    name: str
    label: str
    words: str


Typed = dict[str, str]


def kinds() -> list[TaskKind]:
    """What a run can do: one choice above the form."""
    words = {name: info[RECIPE].help for name in TASKS if RECIPE in (info := fields_of(name))}
    words |= {"script": "Your own code, as torchrun would start it."}
    return [TaskKind(name, name.replace("-", " ").capitalize(), words[name]) for name in TASKS]


def typed_of(document: Mapping[str, Any]) -> Typed:
    """The text of each field for a document; a field that the document does not have shows its default."""
    typed = {}
    for info in form_fields():
        value = look(document, info.path)
        typed[info.path] = as_text(info, info.default if value is None else value)
    task = document.get("task") or {}
    name = "script" if "script" in task else str(task.get("recipe"))
    typed["task"] = name if name in TASKS else TASKS[0]
    return typed


def typed_in(post: Mapping[str, str]) -> Typed:
    """The text of each field as it was sent."""
    typed = {info.path: post.get(info.path, "") for info in form_fields()}
    typed["task"] = post["task"] if post.get("task") in TASKS else TASKS[0]
    return typed


def document_of(typed: Typed) -> dict[str, Any]:
    """The document that the texts say. A field left empty is left out, unless it must be there, and so is one that
    nothing reads while another field says what it does: the form does not show it."""
    values: dict[str, Any] = {}
    for info in fields_of(typed["task"]).values():
        text = typed.get(info.path, "").strip()
        if not is_read(info, typed):
            continue
        if is_fixed(info):
            if info.is_required:  # the recipe, which the kind of task says
                values[info.path] = info.choices[0]
        elif text or info.is_required or info.kind == "bool":
            values[info.path] = as_value(info, text)
    return merge({}, values)


def sections(typed: Typed, problems: Iterable[Problem], choices: Mapping[str, list[Option]]) -> list[Section]:
    """The form, in the order of the spec. ``choices`` offers values for fields that the spec takes as text."""
    by_path = problems_by_path(problems)
    made = []
    for key, (title, help_) in GROUPS.items():
        infos = [info for info in form_fields() if info.group == key and info.path != RECIPE]
        controls = [_control(info, typed, by_path, choices.get(info.path)) for info in infos]
        free = [one for one in controls if not is_fixed(one.info)]
        advanced = [one for one in free if one.info.advanced]
        kinds = {one.only for one in controls}
        made.append(
            Section(
                key=key,
                title=title,
                help=help_,
                only=kinds.pop() if len(kinds) == 1 else "",
                controls=[one for one in free if not one.info.advanced],
                advanced=advanced,
                fixed=[one for one in controls if is_fixed(one.info) and not one.info.is_required],
                is_open=any(one.problem for one in advanced),
            )
        )
    return made


def problems_by_path(problems: Iterable[Problem]) -> dict[str, str]:
    """The first problem of each field; of what lies inside a field (``tags.3``), the field's. No field: empty path."""
    known = {info.path for info in form_fields()}
    found: dict[str, str] = {}
    for path, message in problems:
        field, rest = path, ""
        while field and field not in known:
            field, _, last = field.rpartition(".")
            rest = f"{last}.{rest}" if rest else last
        words = f"{rest}: {message}" if field and rest else f"{path}: {message}" if path and not field else message
        found[field] = f"{found[field]}; {words}" if not field and field in found else found.get(field, words)
    return found


def is_read(info: FieldInfo, typed: Mapping[str, str]) -> bool:
    """Whether what the field needs is typed beside it."""
    if info.needs is None:
        return True
    other = _info(info.needs.path)
    text = typed.get(other.path, "").strip()
    return info.needs.is_met(as_value(other, text) if text else other.default)


def _info(path: str) -> FieldInfo:
    return next(info for info in form_fields() if info.path == path)


def is_fixed(info: FieldInfo) -> bool:
    return len(info.choices) == 1 or (info.kind == "number" and info.minimum == info.maximum)


def as_text(info: FieldInfo, value: Any) -> str:
    if value is None:
        return ""
    if info.kind == "list":
        return shlex.join(value) if info.path == WORDS else ", ".join(map(_quoted, value))
    if info.kind == "map":
        return "\n".join(f"{name}={content}" for name, content in value.items())
    if info.kind == "bool":
        return "on" if value else ""
    return str(value.get("sha256", "")) if isinstance(value, dict) else str(value)


def as_value(info: FieldInfo, text: str) -> Any:
    """What the text means; text that means no such value stays text, and the spec says what is wrong with it."""
    if info.kind == "number":
        return int(text) if _WHOLE.fullmatch(text) else _float(text)
    if info.kind == "list":
        return _words(text) if info.path == WORDS else _entries(text)
    if info.kind == "map":
        return {name.strip(): value for name, _, value in (line.partition("=") for line in text.splitlines()) if name}
    if info.kind == "bool":
        return text == "on"
    if info.default == "auto" and _WHOLE.fullmatch(text):
        return int(text)
    return {"sha256": text} if info.path == "task.code" and _DIGEST.fullmatch(text) else text


def look(document: Any, path: str) -> Any:
    for part in path.split("."):
        document = document.get(part) if isinstance(document, Mapping) else None
    return document


def _control(info: FieldInfo, typed: Typed, by_path: Mapping[str, str], options: list[Option] | None) -> Control:
    value = typed.get(info.path, "")
    widget = {"number": "number", "choice": "select", "map": "lines", "bool": "checkbox"}.get(info.kind, "text")
    if options is not None:
        widget = "select"
    elif info.kind == "choice":
        options = [Option(choice, choice, _tasks_with(info, choice)) for choice in info.choices]
    if widget == "select" and options and value not in [option.value for option in options]:
        options = [*options, Option(value, value)]  # what was asked for stays to be seen, with its problem
    return Control(
        info=info,
        id="field-" + info.path.replace(".", "-"),
        widget=widget,
        value=value,
        options=options or [],
        problem=by_path.get(info.path, ""),
        only=_only(info),
        is_hidden=not is_read(info, typed),
        needed_values=" ".join(info.needs.values) if info.needs else "",
        needed_default=str(_info(info.needs.path).default) if info.needs else "",
    )


def _only(info: FieldInfo) -> str:
    return "" if len(info.tasks) == len(TASKS) else " ".join(("task-field", *(f"for-{task}" for task in info.tasks)))


def _tasks_with(info: FieldInfo, choice: str) -> str:
    tasks = [task for task in info.tasks if choice in fields_of(task)[info.path].choices]
    return "" if len(tasks) == len(info.tasks) else " ".join(tasks)


def _float(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _words(text: str) -> list[str] | str:
    try:
        return shlex.split(text)
    except ValueError:  # a quote that nothing closes
        return text


def _entries(text: str) -> list[str]:
    rows = csv.reader(text.splitlines(), skipinitialspace=True)
    return [entry.strip() for row in rows for entry in row if entry.strip()]


def _quoted(entry: str) -> str:
    return '"' + entry.replace('"', '""') + '"' if re.search(r'[",\n]|^\s|\s$', entry) else entry
