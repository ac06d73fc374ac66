"""The strip above the launch form: what, where, how long, and the fields that people change. And what the form says
otherwise than its source."""

from collections import Counter
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Any

from dashboard.pages.launch import spec_form
from dashboard.pages.launch.sources import FormSource
from dashboard.pages.shared.field_text import as_text
from runs.models import User
from runs.models.indexes import is_none
from runs.rights.access import visible_runs
from trainyard.contract.base import JsonObject
from trainyard.formats.words import listed
from trainyard.spec import FieldInfo, fields_of
from trainyard.spec.form import GROUPS

PLACE = ("name", "project", "cluster", "resources.nodes", "resources.processes_per_node", "train.steps", "limits.time")
USUAL = (
    *("train.learning_rate", "train.batch_size", "train.seed", "train.precision", "train.schedule", "train.optimizer"),
    *("task.operations", "task.repeats", "task.script", "task.arguments", spec_form.CODE, "task.environment"),
)
NUM_NEWEST, NUM_LAUNCHES = 2_000, 200  # runs among which launches are looked for, and launches that are compared
ENOUGH, TWICE = 10, 2  # launches that say what is used, and changes of a field
NUM_USED, MOST_NAMED, MAX_SHOWN = 6, 5, 40  # fields of the strip, changes in a line, characters of a value


def lifted_fields(user: User, typed: spec_form.Typed) -> list[str]:
    """Return the paths of the strip's fields: for the form's kind of task those that changed most often, and for the
    other kinds, which one may switch to, the usual ones."""
    own = fields_of(typed["task"])
    used = dict.fromkeys([*_changed_most(user, typed), *(path for path in USUAL if path in own)])
    return [*PLACE, *list(used)[:NUM_USED], *(path for path in USUAL if path not in own)]


def _changed_most(user: User, typed: spec_form.Typed) -> list[str]:
    """The fields that differed most often from the run before, or from the one that was cloned, in the last launches of
    this person; where those are few, of the project."""
    newest = visible_runs(user).filter(is_none("local_id"))
    columns = newest.values_list("pk", "created_by", "project__name", "trial", "trial_seed")[:NUM_NEWEST]
    launched = [(pk, by) for pk, *by, trial, seed in columns if not (trial or seed)]
    runs: list[tuple[str, str, JsonObject]] = []
    for whose in (user.pk, typed["project"]):
        keys = [pk for pk, by in launched if whose in by][:NUM_LAUNCHES]
        rows = newest.filter(pk__in=keys).values_list("pk", "parent_id", "spec")
        runs = [row for row in rows if spec_form.kind_of(row[2]) == typed["task"]]
        if len(runs) >= ENOUGH:
            break
    specs, own = {pk: spec for pk, _, spec in runs}, fields_of(typed["task"])
    counts: Counter[str] = Counter()
    for (_, parent, spec), (_, _, before) in pairwise(runs):
        counts.update(set(_between(specs.get(parent, before), spec, own)))
    kept = [path for path in counts if counts[path] >= TWICE and path in own and path not in (*PLACE, "tags")]
    return sorted(kept, key=lambda path: (-counts[path], path))


def _between(before: JsonObject, after: JsonObject, own: Collection[str], above: str = "") -> Iterator[str]:
    for name in before.keys() | after.keys():
        path, old, new = f"{above}{name}", before.get(name), after.get(name)
        if isinstance(old, dict) and isinstance(new, dict) and path not in own:
            yield from _between(old, new, own, f"{path}.")
        elif old != new:
            yield path


def said_of(source: FormSource, typed: spec_form.Typed, lifted: Collection[str]) -> dict[str, str]:
    """Return what the page says beside its fields, by place: what is unusual in each group, how the form differs from
    its source, and at each field that does what it was."""
    own = fields_of(typed["task"])
    usual = spec_form.typed_of({"task": {"script": ""} if typed["task"] == "script" else {"recipe": typed["task"]}})
    groups: dict[str, list[str]] = {group: [] for group in GROUPS}
    for path, (_, new) in differences(usual, typed).items():
        if path not in lifted:
            groups[own[path].group].append(f"{own[path].label.lower()} {new}")
    said = {group: listed(words, at_most=MOST_NAMED) or "as usual" for group, words in groups.items()}
    before = spec_form.typed_of(source.base or source.document)
    if before["task"] != typed["task"]:
        return {**said, "difference": f"Another kind of task than {source.label}."}
    left_out = ("name",) if source.run or source.job else ("name", "project", "cluster")
    found = {path: both for path, both in differences(before, typed).items() if path not in left_out}
    words = [f"{path.removeprefix('train.').removeprefix('task.')} {old} → {new}" for path, (old, new) in found.items()]
    line = f"Differs from {source.label}: {listed(words, at_most=MOST_NAMED)}." if words else f"Same as {source.label}."
    return said | {"difference": line} | {f"was:{path}": f"was {old}" for path, (old, _) in found.items()}


def differences(before: spec_form.Typed, after: spec_form.Typed) -> dict[str, tuple[str, str]]:
    """Return by path what each field says before and after, where it means something else."""
    own = [info for info in fields_of(after["task"]).values() if not spec_form.is_fixed(info)]
    pairs = [(info, _meaning(info, before), _meaning(info, after)) for info in own]
    return {info.path: (_in_words(info, old), _in_words(info, new)) for info, old, new in pairs if old != new}


def _meaning(info: FieldInfo, typed: spec_form.Typed) -> Any:
    """The field's value; None where nothing reads it. One that was left empty has its default."""
    text = typed.get(info.path, "").strip()
    if not spec_form.is_read(info, typed):
        return None
    is_empty = (not text and info.kind != "bool") or spec_form.is_of_another_kind(info, text)
    return spec_form.as_value(info, as_text(info, info.default) if is_empty else text)


def _in_words(info: FieldInfo, value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    text = ", ".join(map(str, value)) if isinstance(value, list) else value
    text = " ".join((text if isinstance(text, str) else as_text(info, text)).split()) or "none"
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"
