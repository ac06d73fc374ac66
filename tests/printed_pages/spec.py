"""``python -m tests.printed_pages.spec`` prints the tables of docs/spec_*.md and docs/parallel.md: the fields, and what
goes with what."""

import json
from collections.abc import Callable
from itertools import groupby

from trainyard.spec.form import FieldInfo, fields_of, form_fields
from trainyard.spec.models import KINDS
from trainyard.spec.sections.parallel import KIND
from trainyard.spec.sections.resources import MOST_NODES
from trainyard.spec.strategies import AXES as TABLE
from trainyard.spec.strategies import Limit, of_axis
from trainyard.spec.strategies.mesh import AXES
from trainyard.spec.strategies.products import LIMITS, field_of
from trainyard.spec.strategies.strategy import Axis
from trainyard.spec.values.fields import Needs

LINES = {"environment.requirements": "list of texts, or a file", "changes": "list of changes"}
SCRIPTS = "Scripts"
TITLES = {
    "what": "What",
    SCRIPTS: SCRIPTS,
    "where": "Where",
    "parallel": "Parallel (recipes that train)",
    "train": "Train (recipes that train)",
    "safety": "Safety",
}


def tables() -> str:
    """Return a heading and a table in Markdown for each group of fields."""
    parts = []
    for group, title in TITLES.items():
        rows = [_row(field) for field in form_fields() if _part(field) == group]
        parts.append("\n".join([f"## {title}", "", "| field | values | meaning |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _part(field: FieldInfo) -> str:
    return SCRIPTS if field.group == "what" and set(field.tasks) == {"script"} else field.group


def products() -> str:
    """Return two tables in Markdown: the degrees and what they go with, and what some settings go with."""
    head = ["| degree above 1 | alone | beside others: a model | goes with |", "|---|---|---|---|"]
    rows = [f"| {_degree(axis.name)} | {axis.alone} | {axis.clause} | {_partners(axis)} |" for axis in TABLE]
    limits = ["| setting | goes with | since |", "|---|---|---|"]
    for (path, limit), keys in groupby(LIMITS, lambda key: (key[0], LIMITS[key])):
        values = ", ".join(f"`{value}`" for _, value in keys)
        limits.append(f"| `{path}` {values} | {_allowed(limit)} | {limit.why} |")
    return "\n".join([*head, *rows, "", *limits]) + "\n"


def is_product(axes: frozenset[str]) -> bool:
    """Return whether degrees above 1 on these axes make one device mesh."""
    limits = {axis: of_axis(axis).limit for axis in axes}
    return all(limit is None or axes <= limit.axes | {axis} for axis, limit in limits.items())


def _partners(axis: Axis) -> str:
    barred = [one for one in AXES if not is_product(frozenset({axis.name, one}))]
    return f"all but {' and '.join(map(_degree, barred))}" if barred else "all"


def _degree(axis: str) -> str:
    return f"`{field_of(axis).removeprefix('parallel.')}`"


def _allowed(limit: Limit) -> str:
    degrees = " and ".join(f"`{field_of(axis)}`" for axis in AXES if axis in limit.axes)
    least = f" from {limit.least_data}" if limit.least_data > 1 else ""
    return f"{degrees}{least}{f', `{KIND}` `every-step`' if limit.only_every_step else ''}"


def _row(field: FieldInfo) -> str:
    if field.path == "task.recipe":
        meanings = [f"`{task}`: {fields_of(task)[field.path].help}" for task in field.tasks]
        return f"| `task.recipe` | required | {' '.join(meanings)} |"
    meaning = " ".join([*_whose(field), field.help, *_needs(field)])
    return f"| `{field.path}` | {_by_kind(field, _values)} | {meaning} |"


def _by_kind(field: FieldInfo, words: Callable[[FieldInfo], str]) -> str:
    """Say it once where all kinds of spec have it alike, else for each."""
    found = {task: words(fields_of(task)[field.path]) for task in field.tasks}
    if len(set(found.values())) == 1:
        return found[field.tasks[0]]
    return "; ".join(f"{task}: {said}" for task, said in found.items())


def _whose(field: FieldInfo) -> list[str]:
    """Name the kinds that have a field of ``task``; the other groups say it in their headings."""
    if len(field.tasks) == len(KINDS) or not field.path.startswith("task."):
        return []
    return [f"*{', '.join(field.tasks)}*:"]


def _needs(field: FieldInfo) -> list[str]:
    if field.needs is None:
        return []
    whose = "" if field.needing == field.tasks else f"{', '.join(field.needing)}: only"
    return [f"{whose or 'Only'} with {_need(field.needs)}."]


def _need(needs: Needs) -> str:
    values = ", ".join(f"`{value}`" for value in needs.values)
    return f"`{needs.path}` {values or f'above {needs.above:g}'}"


def _values(field: FieldInfo) -> str:
    """Return what is accepted, with a default in bold that is not empty."""
    if field.is_required:
        return f"{_type(field)}; required"
    if field.default in ("", [], {}, "auto") and field.kind != "choice":
        return _type(field)
    default = f"`{field.default if isinstance(field.default, str) else json.dumps(field.default)}`"
    if field.kind in {"choice", "bool"}:
        return _type(field).replace(default, f"**{default}**")
    if field.kind == "list":
        default = "all" if field.default == list(field.choices) else f"`{', '.join(field.default)}`"
    return f"{_type(field)}; **{default}**"


def _type(field: FieldInfo) -> str:
    if field.default == "auto" and field.kind == "text":
        others = {
            "hangs.after": "**`auto`** or a length of time",
            "checkpoint.replicate_every_steps": "**`auto`** or whole, from 0",
        }
        return others.get(field.path, "**`auto`** or whole, from 1")
    if field.kind == "nodes":
        return f"whole, 1 to {MOST_NODES:,}, or `{{min, max}}`"
    if field.kind == "choice":
        return ", ".join(f"`{choice}`" for choice in field.choices)
    if field.kind == "bool":
        return "`true`, `false`"
    if field.kind != "number":
        entries = ", ".join(f"`{choice}`" for choice in field.choices) or "texts"
        return {
            "list": f"list of {entries}",
            "map": "map of texts",
            "lines": LINES.get(field.path, "list of rules"),
        }.get(field.kind, "text")
    assert field.minimum is not None and field.maximum is not None, f"{field.path} has no limits"
    words = "whole, " if field.is_whole else ""
    if field.minimum == field.maximum:
        return f"{words}only {_figure(field.minimum)}"
    return f"{words}{'above ' if field.is_above else ''}{_figure(field.minimum)} to {_figure(field.maximum)}"


def _figure(limit: float) -> str:
    return f"{limit:,}" if isinstance(limit, int) else f"{limit:g}"


if __name__ == "__main__":
    print(tables(), products(), sep="\n", end="")
