"""Blocks of a report: what each asks for, line by line, and what it shows of runs, as JSON that can be kept.

``runs`` and ``parts`` of a block are equally long: what it shows of a run can be left out for who may not see that.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db.models import QuerySet

from dashboard.pages.compare.specs import NOT_SET, differing
from dashboard.pages.shared import numbers
from dashboard.pages.shared.chart_runs import fields_of
from dashboard.pages.shared.redaction import without_secrets
from dashboard.pages.shared.run_colours import colours_apart
from runs.finding import columns
from runs.finding.language import FilterError
from runs.models import Project, Run
from runs.presenting.listing import find_runs
from runs.records.media import read as media
from runs.records.metrics.codec import numbers as as_json
from runs.records.points import read
from runs.rights.access import Someone
from trainyard.contract.base import JsonObject

MAX_RUNS, MAX_NAMES, MAX_FIELDS, MAX_IMAGES = 20, 20, 100, 24
POINTS, MAX_POINTS = 400, 200_000  # of a series; of all series of a chart
KEPT = ("step", "value", "mean", "min", "max", "last")  # columns of a curve that a picture of it is drawn from
FIELDS = {
    "chart": ("runs", "filter", "metrics"),
    "table": ("runs", "filter", "columns"),
    "compare": ("runs",),
    "media": ("run", "name", "step"),
    "spec-diff": ("runs",),
}
NEEDED = {"chart": "metrics", "media": "name"}
NUMBER = re.compile(r"(?P<run>run/\w+)\s+(?P<name>.+?)\s+(?P<statistic>last|min|max|mean|best)")
HOW = "write run/ID, a metric, and last, min, max, mean or best"


class BlockError(ValueError):
    """A block that cannot be read; ``line`` counts those of the block from 1, 0 is the one that names it."""

    def __init__(self, sentence: str, line: int = 0) -> None:
        super().__init__(sentence)
        self.line = line


class Asked(NamedTuple):
    """The lines of a block by name, with where each stands."""

    kind: str
    values: dict[str, str]
    lines: dict[str, int]

    def names(self, field: str, most: int = MAX_NAMES) -> list[str]:
        found = list(dict.fromkeys(name.strip() for name in self.values.get(field, "").split(",") if name.strip()))
        if len(found) > most:
            raise self.error(f"{field} has at most {most} names, not {len(found)}.", field)
        return found

    def error(self, sentence: str, field: str) -> BlockError:
        return BlockError(sentence, self.lines.get(field, 0))


def read_block(kind: str, text: str, viewer: Someone, project: Project, seen: QuerySet[Run]) -> JsonObject:
    """Return what the block shows now of the runs that are ``seen``. Raises BlockError."""
    asked = _asked(kind, text)
    runs, num_hidden, has_more = _runs(asked, viewer, project, seen)
    colours = colours_apart(viewer, runs, is_kept=kind == "chart")
    try:
        shown = READERS[kind](asked, runs) if runs else {"columns": [], "parts": []}
    except FilterError as error:
        raise asked.error(error.message, "columns") from None
    except read.TooManyPoints:
        raise BlockError("These are more points than a picture has. Show fewer runs or metrics.") from None
    about = [{"id": one.pk, "name": one.name, "project": one.project_id, "colour": colours[one.pk]} for one in runs]
    return {"kind": kind, "runs": about, "num_hidden": num_hidden, "has_more": has_more, **shown}


def _asked(kind: str, text: str) -> Asked:
    asked = Asked(kind, {}, {})
    if kind == "number":
        if (match := NUMBER.fullmatch(text)) is None:
            raise BlockError(f"{text} is no number: {HOW}.")
        return asked._replace(values=match.groupdict())
    for number, line in enumerate(text.splitlines(), 1):
        name, _, value = (part.strip() for part in line.partition(":"))
        if line.strip() and name not in FIELDS[kind]:
            raise BlockError(f"A {kind} has lines for {', '.join(FIELDS[kind])}; not {line.strip()[:60]}.", number)
        if name in asked.values:
            raise BlockError(f"This {kind} has {name} twice.", number)
        if value:
            asked.values[name], asked.lines[name] = value, number
    if (needed := NEEDED.get(kind, "")) and needed not in asked.values:
        raise BlockError(f"A {kind} needs a line {needed}.")
    return asked


def _runs(asked: Asked, viewer: Someone, project: Project, seen: QuerySet[Run]) -> tuple[list[Run], int, bool]:
    """Return the runs that the viewer may see, how many named ones they may not, and whether more fit the filter."""
    ids = [one.removeprefix("run/") for one in asked.names("runs", MAX_RUNS) + asked.names("run", 1)]
    fitting = asked.values.get("filter", "")
    if bool(ids) == bool(fitting):
        raise asked.error(f"A {asked.kind} needs one line with ids of runs, or with a filter.", "runs")
    if asked.kind == "spec-diff" and len(ids) != 2:
        raise asked.error(f"A spec-diff has two runs, not {len(ids)}.", "runs")
    if ids:
        found = seen.in_bulk(ids)
        return [found[one] for one in ids if one in found], len(set(ids)) - len(found), False
    try:
        fit = find_runs(viewer, project=project.pk, fitting=fitting).order_by("-created_at", "-pk")[: MAX_RUNS + 1]
    except FilterError as error:
        raise asked.error(f"{error.message} It is at character {error.position + 1}.", "filter") from None
    return list(fit[:MAX_RUNS]), 0, len(fit) > MAX_RUNS


def _chart(asked: Asked, runs: Sequence[Run]) -> JsonObject:
    names = asked.names("metrics")
    parts: dict[str, list[JsonObject]] = {run.pk: [] for run in runs}
    _, found = read.curves(dict.fromkeys(parts, (None, None)), names, points=POINTS, at_most=MAX_POINTS)
    for curve in found:
        kept = {name: as_json(curve.columns[name]) for name in KEPT if name in curve.columns}
        own = {"name": curve.name, "labels": curve.labels, "attempt": curve.attempt, "kind": curve.kind}
        parts[curve.run_id].append({**own, "columns": kept})
    return {"columns": names, "parts": list(parts.values())}


def _table(asked: Asked, runs: Sequence[Run]) -> JsonObject:
    names = asked.names("columns") or ["name", "status"]
    if "user" in names:  # who is erased would stand in what is pinned
        raise asked.error("A report keeps no names of people: it has no column user.", "columns")
    found = list(columns.values(runs, names).values())
    return {"columns": list(found[0]), "parts": [[_cell(*one) for one in cells.items()] for cells in found]}


def _cell(name: str, value: Any) -> str:
    if name in columns.TIMES and value is not None:
        return f"{datetime.fromtimestamp(value, UTC):%d %b %Y, %H:%M} UTC"
    return NOT_SET if value is None else value.lower() if name == "status" else numbers.setting(value)


def _differ(asked: Asked, runs: Sequence[Run]) -> JsonObject:
    fields = [fields_of(without_secrets({**run.spec, "config": run.config})) for run in runs]
    paths = differing(fields)[:MAX_FIELDS]
    return {"columns": paths, "parts": [[one.get(path, NOT_SET) for path in paths] for one in fields]}


def _compare(asked: Asked, runs: Sequence[Run]) -> JsonObject:
    """What differs, and the last value of each series that is no measure of a machine."""
    found, differ = read.short_summaries([run.pk for run in runs]), _differ(asked, runs)
    names = sorted({name for one in found.values() for name in one if not name.startswith("system/")})[:MAX_NAMES]
    for part, figures in zip(differ["parts"], found.values(), strict=True):
        part += [numbers.metric(figures[name]["last"], name) if name in figures else NOT_SET for name in names]
    return {"columns": [*differ["columns"], *(f"{name}, last" for name in names)], "parts": differ["parts"]}


def _media(asked: Asked, runs: Sequence[Run]) -> JsonObject:
    name, step = asked.values["name"], asked.values.get("step", "")
    if step and not re.fullmatch(r"[0-9]{1,15}", step):
        raise asked.error(f"step is a whole number, not {step[:60]}.", "step")
    images = []
    for one in media.media_list(runs[0].pk):
        if one["name"] == name and one["kind"] == "image":
            items, _ = media.steps_of(runs[0].pk, name, one["labels"])
            wanted = int(step or one["last_step"])
            images += [{"id": item["id"], "step": item["step"]} for item in items if item["step"] == wanted]
    if not images:
        raise asked.error(f"Run {runs[0].name} has no image {name}{f' at step {step}' if step else ''}.", "name")
    return {"columns": [name], "parts": [images[:MAX_IMAGES]]}


def _number(asked: Asked, runs: Sequence[Run]) -> JsonObject:
    series, statistic = asked.values["name"], asked.values["statistic"]
    [cells] = columns.values(runs, [f"summary.{series}.{statistic}"]).values()
    [value] = cells.values()
    return {"columns": [f"{statistic} of {series}"], "parts": [numbers.metric(value, series)]}


READERS = {
    "chart": _chart, "table": _table, "compare": _compare, "media": _media, "spec-diff": _differ, "number": _number,
}  # fmt: skip
