"""Blocks of a report: what each asks for, line by line, and what it shows of runs, as JSON that can be kept.

``runs`` and ``parts`` of a block are equally long: what it shows of a run can be left out for who may not see that.
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from dashboard.pages.compare.specs import NOT_SET, differing
from dashboard.pages.shared import numbers
from dashboard.pages.shared.chart_runs import fields_of
from dashboard.pages.shared.run_colours import colours_apart
from runs.finding import columns
from runs.finding.language import FilterError
from runs.models import Project, Run
from runs.presenting.listing import find_runs
from runs.records.media import read as media
from runs.records.metrics.json_numbers import numbers as as_json
from runs.records.points import read
from runs.rights.access import Someone, visible_runs
from trainyard.contract.base import JsonObject

MAX_RUNS, MAX_METRICS, MAX_COLUMNS, MAX_SERIES, MAX_FIELDS, MAX_IMAGES = 20, 12, 30, 20, 100, 24
POINTS, MAX_POINTS = 400, 200_000  # of a series; of all series of a chart
KEPT = ("step", "value", "mean", "min", "max", "last")  # columns of a curve that a picture of it is drawn from
FIELDS = {
    "chart": ("metrics", "runs", "filter"),
    "table": ("columns", "runs", "filter"),
    "compare": ("runs",),
    "media": ("run", "name", "step"),
    "spec-diff": ("runs",),
}
NEEDED = {"chart": ("metrics",), "media": ("run", "name")}
NUMBER = re.compile(r"run/(\w+)\s+(.+?)\s+(last|min|max|mean|best)")


class BlockError(ValueError):
    """A block that cannot be read; ``line`` counts those of the block from 1, 0 is the one that names it."""

    def __init__(self, sentence: str, line: int = 0) -> None:
        super().__init__(sentence)
        self.line = line


class Asked(NamedTuple):
    """The lines of a block by name, with where each stands."""

    values: dict[str, str]
    lines: dict[str, int]

    def names(self, field: str, most: int) -> list[str]:
        found = list(dict.fromkeys(name.strip() for name in self.values.get(field, "").split(",") if name.strip()))
        if len(found) > most:
            raise BlockError(f"{field} has at most {most} names, not {len(found)}.", self.lines[field])
        return found


def read_block(kind: str, text: str, viewer: Someone, project: Project) -> JsonObject:
    """Return what the block shows now to the viewer. Raises BlockError."""
    asked = _asked(kind, text)
    runs, num_hidden, has_more = _runs(kind, asked, viewer, project)
    colours = colours_apart(viewer, runs)
    try:
        shown = READERS[kind](asked, runs) if runs else {"columns": [], "parts": []}
    except FilterError as error:
        raise BlockError(error.message, asked.lines.get("columns", 0)) from None
    except read.TooManyPoints:
        raise BlockError("These are more points than a picture has. Show fewer runs or metrics.") from None
    about = [{"id": one.pk, "name": one.name, "project": one.project_id, "colour": colours[one.pk]} for one in runs]
    return {"kind": kind, "runs": about, "num_hidden": num_hidden, "has_more": has_more, **shown}


def _asked(kind: str, text: str) -> Asked:
    if kind == "number":
        match = NUMBER.fullmatch(text)
        if match is None:
            raise BlockError(f"{text!r} is no number: write run/ID, a metric, and last, min, max, mean or best.")
        return Asked(dict(zip(("run", "name", "statistic"), match.groups(), strict=True)), {})
    asked = Asked({}, {})
    for number, line in enumerate(text.splitlines(), 1):
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not line.strip():
            continue
        if not colon or name not in FIELDS[kind]:
            known = ", ".join(f"{one}:" for one in FIELDS[kind])
            raise BlockError(f"A block {kind} has lines that begin with {known} not {line.strip()[:60]!r}.", number)
        if name in asked.values:
            raise BlockError(f"The block {kind} has {name} twice.", number)
        asked.values[name], asked.lines[name] = value, number
    for name in NEEDED.get(kind, ()):
        if not asked.values.get(name):
            raise BlockError(f"The block {kind} needs a line {name}:", asked.lines.get(name, 0))
    return asked


def _runs(kind: str, asked: Asked, viewer: Someone, project: Project) -> tuple[list[Run], int, bool]:
    """Return the runs that the viewer may see, how many named ones they may not, and whether more fit the filter."""
    field = "run" if "run" in asked.values else "runs"
    ids = [one.removeprefix("run/") for one in asked.names(field, 1 if field == "run" else MAX_RUNS)]
    fitting = asked.values.get("filter", "")
    if bool(ids) == bool(fitting):
        also = " or a filter:, and not both" if "filter" in FIELDS.get(kind, ()) else ""
        raise BlockError(f"The block {kind} needs a line runs: with ids of runs{also}.", asked.lines.get("runs", 0))
    if kind == "spec-diff" and len(ids) != 2:
        raise BlockError(f"A block spec-diff has two runs, not {len(ids)}.", asked.lines["runs"])
    if ids:
        seen = visible_runs(viewer).in_bulk(ids)
        return [seen[one] for one in ids if one in seen], len(ids) - len(seen), False
    try:
        fit = list(
            find_runs(viewer, project=project.pk, fitting=fitting).order_by("-created_at", "-pk")[: MAX_RUNS + 1]
        )
    except FilterError as error:
        where = f"{error.message} It is at character {error.position + 1} of the filter."
        raise BlockError(where, asked.lines["filter"]) from None
    return fit[:MAX_RUNS], 0, len(fit) > MAX_RUNS


def _chart(asked: Asked, runs: Sequence[Run]) -> JsonObject:
    names = asked.names("metrics", MAX_METRICS)
    parts: dict[str, list[JsonObject]] = {run.pk: [] for run in runs}
    _, found = read.curves(dict.fromkeys(parts, (None, None)), names, points=POINTS, at_most=MAX_POINTS)
    for curve in found:
        kept = {name: [_short(one) for one in as_json(curve.columns[name])] for name in KEPT if name in curve.columns}
        own = {"name": curve.name, "labels": curve.labels, "attempt": curve.attempt, "kind": curve.kind}
        parts[curve.run_id].append({**own, "columns": kept})
    return {"columns": names, "parts": list(parts.values())}


def _short(value: float | str) -> float | str:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _table(asked: Asked, runs: Sequence[Run]) -> JsonObject:
    names = asked.names("columns", MAX_COLUMNS) or ["name", "status"]
    found = list(columns.values(runs, names).values())
    return {"columns": list(found[0]), "parts": [[_cell(*one) for one in cells.items()] for cells in found]}


def _cell(name: str, value: Any) -> str:
    if value is None:
        return NOT_SET
    if name in columns.TIMES:
        return f"{datetime.fromtimestamp(value, UTC):%d %b %Y, %H:%M} UTC"
    return value.lower() if name == "status" else numbers.setting(value)


def _compare(asked: Asked, runs: Sequence[Run]) -> JsonObject:
    """What differs, and the last value of each series that is no measure of a machine."""
    found = read.summaries([run.pk for run in runs])
    names = sorted({name for one in found.values() for name in one if not name.startswith("system/")})[:MAX_SERIES]
    differ = _differ(asked, runs)
    parts = [
        own + [numbers.metric(found[run.pk].get(name, {}).get("last"), name) for name in names]  # type: ignore[union-attr]
        for run, own in zip(runs, differ["parts"], strict=True)
    ]
    return {"columns": differ["columns"] + [f"{name}, last" for name in names], "parts": parts}


def _differ(asked: Asked, runs: Sequence[Run]) -> JsonObject:
    fields = [fields_of({**run.spec, **({"config": run.config} if run.config else {})}) for run in runs]
    paths = differing(fields)[:MAX_FIELDS]
    return {"columns": paths, "parts": [[one.get(path, NOT_SET) for path in paths] for one in fields]}


def _media(asked: Asked, runs: Sequence[Run]) -> JsonObject:
    name, step = asked.values["name"], asked.values.get("step", "")
    if step and not re.fullmatch(r"\d{1,15}", step):
        raise BlockError(f"step is a whole number, not {step[:60]!r}.", asked.lines["step"])
    images = []
    for one in media.media_list(runs[0].pk):
        if one["name"] == name and one["kind"] == "image":
            items, _ = media.steps_of(runs[0].pk, name, one["labels"])
            wanted = int(step) if step else max((item["step"] for item in items), default=0)
            images += [{"id": item["id"], "step": item["step"]} for item in items if item["step"] == wanted]
    if not images:
        raise BlockError(f"Run {runs[0].name} has no image {name}{f' at step {step}' if step else ''}.")
    return {"columns": [name], "parts": [images[:MAX_IMAGES]]}


def _number(asked: Asked, runs: Sequence[Run]) -> JsonObject:
    series, statistic = asked.values["name"], asked.values["statistic"]
    [[value]] = [one.values() for one in columns.values(runs, [f"summary.{series}.{statistic}"]).values()]
    return {"columns": [f"{statistic} of {series}"], "parts": [numbers.metric(value, series)]}  # type: ignore[arg-type]


READERS: dict[str, Callable[[Asked, Sequence[Run]], JsonObject]] = {
    "chart": _chart, "table": _table, "compare": _compare, "media": _media, "spec-diff": _differ, "number": _number,
}  # fmt: skip
