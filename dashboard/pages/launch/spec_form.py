"""A spec as a form: from a document to the text in each field, and back. What is valid, trainyard.spec alone knows."""

import csv
import json
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from dashboard.pages.launch.space_entries import plain
from dashboard.pages.shared.field_text import WORDS, as_text
from runs.inputs.datasets import HERE, NAME, PLACE
from trainyard.contract.base import JsonObject
from trainyard.spec import KINDS, FieldInfo, Problem, fields_of, form_fields, is_own_code, merge
from trainyard.spec.document import value_at_path
from trainyard.spec.form import GROUPS
from trainyard.spec.sections.data import SOURCE
from trainyard.spec.sections.tasks import PROGRAMS

TASKS = tuple(KINDS)
RECIPE = "task.recipe"  # which the kind of task says
CODE = "task.code"
_WHOLE = re.compile(r"[+-]?\d{1,400}")  # more digits are no number that anything takes, and Python counts them slowly
_RANGE = re.compile(r"(\d{1,9}) *(?:-|–|to|\.\.) *(\d{1,9})")
_DIGEST = re.compile(r"[0-9a-f]{64}")
VARIED_KINDS, VARIED_GROUPS = ("number", "choice", "bool"), ("what", "parallel", "train")
DOUBLE = ("name", "task.arguments", "task.command", "task.data.location")  # long texts: twice as wide as others


class Option(NamedTuple):
    """``tasks`` are the kinds of task that have it, with spaces between them; none: all that have the field. The same
    with ``projects``."""

    value: str
    label: str
    tasks: str = ""
    projects: str = ""


class Control(NamedTuple):
    """One field as the page draws it. ``only`` has the classes that hide it from kinds of task that do not have it.

    A field that needs another (``info.needs``) is hidden while that one says something else, and keeps what was typed.
    """

    info: FieldInfo
    id: str
    widget: str  # text, number, select, lines, checkbox, checks
    value: str
    options: list[Option]
    problem: str
    only: str
    is_hidden: bool
    needed_values: str  # of the field that it needs, with spaces between them
    needed_default: str  # what that field means when it is empty
    needing: str  # kinds of task in which it needs that, with spaces between them
    named_by: str  # another field that will do instead, if it says anything
    defaults: dict[str, str]  # by kind of task, where they differ

    @property
    def width(self) -> str:
        """The class for a field that takes more room than others."""
        if self.widget in ("lines", "checks") or self.info.path == CODE:
            return "is-wide"
        return "is-double" if self.info.path in DOUBLE else ""

    @property
    def can_vary(self) -> bool:
        """Return whether a sweep may try several values of it."""
        return self.info.kind in VARIED_KINDS and self.info.group in VARIED_GROUPS and not is_fixed(self.info)

    @property
    def line(self) -> str:
        """An example of a line of a field of several lines."""
        shown = {"environment.requirements": "numpy>=2", "log_rules": "slow-disk notify: nfs: .* gone"}
        return shown.get(self.info.path, "" if self.info.kind == "lines" else "NAME=value, one a line")

    @property
    def git(self) -> JsonObject | None:
        """The repository of the code; None for an upload."""
        return git_of(self.value) if self.info.path == CODE else None

    @property
    def chosen(self) -> list[str]:
        return _entries(self.value)

    @property
    def defaults_json(self) -> str:
        return json.dumps(self.defaults) if self.defaults else ""


class FormSection(NamedTuple):
    key: str
    title: str
    only: str
    controls: list[Control]
    advanced: list[Control]
    is_open: bool  # something in it is wrong


Typed = dict[str, str]


def kinds() -> list[tuple[str, str, str]]:
    """Return the kinds of tasks, one choice above the form: name, label and words."""
    words = {name: info[RECIPE].help for name in TASKS if RECIPE in (info := fields_of(name))}
    words |= {"script": "Your own code, as torchrun would start it."}
    return [(name, name.replace("-", " ").capitalize(), words[name]) for name in TASKS]


def typed_of(document: JsonObject) -> Typed:
    """The text of each field for a document; a field that the document does not have shows its default."""
    name = kind_of(document)
    typed = {"task": name if name in TASKS else TASKS[0]}
    own = fields_of(typed["task"])
    for info in form_fields():
        value = value_at_path(document, info.path)[1]
        typed[info.path] = as_text(info, own.get(info.path, info).default if value is None else value)
    return typed


def kind_of(document: JsonObject) -> str:
    task = document.get("task") or {}
    return "script" if is_own_code(task) else str(task.get("recipe"))


def typed_in(post: Mapping[str, str]) -> Typed:
    typed = {info.path: _sent(post, info) for info in form_fields()}
    if post.get("code-source") == "git":
        typed[CODE] = _git_text(post)
    typed["task"] = post["task"] if post.get("task") in TASKS else TASKS[0]
    return typed


def _sent(post: Mapping[str, str], info: FieldInfo) -> str:
    """Return what was sent for a field; of a group of checkboxes, all that are checked."""
    several = getattr(post, "getlist", None)
    return ", ".join(several(info.path)) if several and _is_checks(info) else post.get(info.path, "")


def _is_checks(info: FieldInfo) -> bool:
    return info.kind == "list" and bool(info.choices)


def document_of(typed: Typed) -> JsonObject:
    """The document that the texts say. A field left empty is left out, unless it must be there, and so is one that
    nothing reads while another field says what it does: the form does not show it."""
    values: dict[str, Any] = {}
    for info in fields_of(typed["task"]).values():
        text = typed.get(info.path, "").strip()
        if is_fixed(info):
            if info.is_required:  # the recipe, which the kind of task says
                values[info.path] = info.choices[0]
        elif not is_read(info, typed) or is_of_another_kind(info, text):
            continue
        elif text or info.is_required or info.kind == "bool" or _is_checks(info):
            values[info.path] = as_value(info, text)
    if typed["task"] == "script" and not any(values.get(f"task.{name}") for name in PROGRAMS):
        values["task.script"] = ""  # what is missing is said beside it
    return merge({}, values)


def controls_at(
    paths: Iterable[str], typed: Typed, problems: Iterable[Problem], choices: Mapping[str, list[Option]]
) -> list[Control]:
    """The fields of these paths. ``choices`` offers values for fields that the spec takes as text."""
    by_path = problems_by_path(problems)
    return [_control(_info(path), typed, by_path, choices.get(path)) for path in paths]


def sections(
    typed: Typed, problems: Sequence[Problem], choices: Mapping[str, list[Option]], lifted: Collection[str] = ()
) -> list[FormSection]:
    """The form, in the order of the spec, without the fields that are ``lifted`` out of it."""
    made = []
    for key in GROUPS:
        paths = [one.path for one in form_fields() if one.group == key and one.path not in (RECIPE, *lifted)]
        controls = controls_at(paths, typed, problems, choices)
        made.append(
            FormSection(
                key=key,
                title=key.capitalize(),
                only=_only({task for one in controls for task in one.info.tasks} or TASKS),
                controls=[one for one in controls if not one.info.advanced],
                advanced=[one for one in controls if one.info.advanced],
                is_open=any(one.problem for one in controls),
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
    """Return whether what the field needs is typed beside it, or a dataset named, which says what its source is."""
    own = fields_of(typed["task"])
    needs = own[info.path].needs if info.path in own else None
    if needs is None:
        return True
    if (named := _named_by(info)) and typed.get(named, "").strip():
        return True
    other = own[needs.path]
    text = typed.get(other.path, "").strip()
    return needs.is_met(as_value(other, text) if text and not is_of_another_kind(other, text) else other.default)


def _named_by(info: FieldInfo) -> str:
    """The field that names a dataset, where that says as much as the source that the field needs; empty elsewhere."""
    is_option = info.needs is not None and info.needs.path == SOURCE and info.path.removeprefix(HERE) not in PLACE
    return NAME if is_option else ""


def is_of_another_kind(info: FieldInfo, text: str) -> bool:
    """Return whether the text was chosen before the kind of task was switched: it counts as not typed."""
    return info.kind == "choice" and text not in info.choices and text in _info(info.path).choices


@cache
def _info(path: str) -> FieldInfo:
    return next(info for info in form_fields() if info.path == path)


def _git_text(post: Mapping[str, str]) -> str:
    """Return what was typed about a repository, as the text of the one field of the spec."""
    texts = {name: post.get(f"code-{name}", "").strip() for name in ("git", "revision", "path")}
    found: JsonObject = {name: text for name, text in texts.items() if text}
    found |= {name: True for name in ("submodules", "lfs") if post.get(f"code-{name}")}
    found |= {"patch": patch} if (patch := post.get("code-patch", "")) else {}
    return json.dumps({"git": "", **found})


def git_of(text: str) -> JsonObject | None:
    """Return what the text of the field says of a repository; None where it says something else."""
    found = plain(text) if text.startswith("{") else None
    return found if isinstance(found, dict) and "git" in found else None


def is_fixed(info: FieldInfo) -> bool:
    return len(info.choices) == 1 or (info.kind == "number" and info.minimum == info.maximum)


def as_value(info: FieldInfo, text: str) -> Any:
    """Return the text's value; text that means no such value stays text, and the spec says what is wrong with it."""
    if info.kind == "number":
        return int(text) if _WHOLE.fullmatch(text) else _parsed(float, text)
    if info.kind == "nodes":
        found = _RANGE.fullmatch(text)  # such as 1-4
        return {"min": int(found[1]), "max": int(found[2])} if found else int(text) if _WHOLE.fullmatch(text) else text
    if info.kind == "list":
        return _parsed(shlex.split, text) if info.path in WORDS else _entries(text)
    if info.kind == "lines":
        return [line.strip() for line in text.splitlines() if line.strip()]
    if info.kind == "map":
        return {name.strip(): value for name, _, value in (line.partition("=") for line in text.splitlines()) if name}
    if info.kind == "bool":
        return text == "on"
    if info.default == "auto" and _WHOLE.fullmatch(text):
        return int(text)
    if info.path == CODE:
        return {"sha256": text} if _DIGEST.fullmatch(text) else git_of(text) or text
    return text


def _control(info: FieldInfo, typed: Typed, by_path: Mapping[str, str], options: list[Option] | None) -> Control:
    value, empty = typed.get(info.path, ""), empty_control(info.path)
    widget, options = ("select", options) if options is not None else (empty.widget, empty.options)
    own = fields_of(typed["task"]).get(info.path, info)
    if is_of_another_kind(own, value):
        value = as_text(info, own.default)
    if widget == "select" and options and value not in [option.value for option in options] and not git_of(value):
        options = [*options, Option(value, value)]  # what was asked for stays to be seen, with its problem
    return empty._replace(
        widget=widget,
        value=value,
        options=options,
        problem=by_path.get(info.path, ""),
        is_hidden=not is_read(info, typed),
    )


@cache
def empty_control(path: str) -> Control:
    """The field with nothing typed, and nothing to choose from but what the spec itself has."""
    info, options = _info(path), []
    defaults = {task: as_text(info, fields_of(task)[path].default) for task in info.tasks}
    widget = {"number": "number", "choice": "select", "map": "lines", "lines": "lines", "bool": "checkbox"}.get(
        info.kind, "text"
    )
    if info.kind == "choice" or _is_checks(info):
        options = [Option(choice, choice, _tasks_with(info, choice)) for choice in info.choices]
        options.sort(key=lambda option: option.tasks.count(" "))  # what several kinds have stands behind their own
    return Control(
        info=info,
        id="field-" + path.replace(".", "-"),
        widget="checks" if _is_checks(info) else widget,
        value="",
        options=options,
        problem="",
        only=_only(info.tasks),
        is_hidden=False,
        needed_values=" ".join(info.needs.values) if info.needs else "",
        needed_default=str(_info(info.needs.path).default) if info.needs else "",
        needing=" ".join(info.needing),
        named_by=_named_by(info),
        defaults=defaults if len(set(defaults.values())) > 1 else {},
    )


def _only(tasks: Collection[str]) -> str:
    """Classes that hide what these kinds of task alone have from the others."""
    own = [f"for-{task}" for task in TASKS if task in tasks]
    return "" if len(own) == len(TASKS) else " ".join(("task-field", *own))


def _tasks_with(info: FieldInfo, choice: str) -> str:
    tasks = [task for task in info.tasks if choice in fields_of(task)[info.path].choices]
    return "" if len(tasks) == len(info.tasks) else " ".join(tasks)


def _parsed(parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text)
    except ValueError:  # no number, or a quote that nothing closes
        return text


def _entries(text: str) -> list[str]:
    rows = csv.reader(text.splitlines(), skipinitialspace=True)
    return [entry.strip() for row in rows for entry in row if entry.strip()]
