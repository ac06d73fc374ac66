"""What a node found in a dataset, as its page draws it. All of it is text that others wrote: templates escape it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dashboard.pages.shared.badges import Badge
from dashboard.pages.shared.numbers import count, number
from runs.models import Dataset
from trainyard.contract.inspections import ColumnFacts, DatasetFacts, Picture

BADGES = {
    Dataset.State.WAITING: Badge("waiting", "grey", "status-queued"),
    Dataset.State.CHECKING: Badge("checking", "blue", "status-starting", "pulsing"),
    Dataset.State.READY: Badge("ready", "green", "status-succeeded", "solid"),
    Dataset.State.FAILED: Badge("failed", "red", "status-failed", "solid"),
}
SOURCES = {
    "text": "Text files",
    "jsonl": "JSON lines",
    "npz": "NumPy arrays",
    "csv": "CSV table",
    "parquet": "Parquet table",
    "images": "Folder of images",
}
MAX_COLUMNS = 100
MAX_CELLS = 20  # of a row that is shown whole
MAX_CLASSES = 30


class ColumnRow(NamedTuple):
    name: str
    type: str
    missing: str
    min: str
    max: str
    mean: str
    distinct: str
    examples: str
    is_target: bool


class ClassBar(NamedTuple):
    name: str
    num_rows: int
    most: int  # of any class: the full width


class ClassPictures(NamedTuple):
    name: str
    urls: list[str]


class Preview(NamedTuple):
    kind: str  # table, text, images; empty where nothing is known
    columns: list[ColumnRow]
    num_hidden_columns: int
    titles: list[str]
    rows: list[list[str]]
    classes: list[ClassBar]
    num_hidden_classes: int
    text: str
    pictures: list[ClassPictures]
    is_sample: bool


def badge_of(dataset: Dataset) -> Badge:
    return BADGES[Dataset.State(dataset.state)]


def preview(dataset: Dataset) -> Preview:
    facts: DatasetFacts = dataset.facts
    columns = facts.get("columns") or []
    classes = sorted(facts.get("classes") or [], key=lambda one: -one["count"])
    return Preview(
        kind=facts.get("kind", ""),
        columns=[_column(one, dataset.options.get("target", "")) for one in columns[:MAX_COLUMNS]],
        num_hidden_columns=max(int(facts.get("num_columns") or 0), len(columns)) - len(columns[:MAX_COLUMNS]),
        titles=[one["name"] for one in columns[:MAX_CELLS]],
        rows=[[cell(value) for value in row[:MAX_CELLS]] for row in facts.get("rows") or []],
        classes=[ClassBar(one["name"], one["count"], classes[0]["count"]) for one in classes[:MAX_CLASSES]],
        num_hidden_classes=len(classes) - len(classes[:MAX_CLASSES]),
        text=facts.get("text", ""),
        pictures=_pictures(facts.get("images") or []),
        is_sample=bool(facts.get("is_sample")),
    )


def cell(value: object) -> str:
    """A value of the data in few characters; nothing for one that is missing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _column(one: ColumnFacts, target: str) -> ColumnRow:
    mean = one.get("mean")
    return ColumnRow(
        name=one["name"],
        type=one.get("type", ""),
        missing=count(one["missing"]) if one.get("missing") else "",
        min=cell(one.get("min")),
        max=cell(one.get("max")),
        mean="" if mean is None else number(mean),
        distinct=count(one["num_distinct"]) if one.get("num_distinct") is not None else "",
        examples=", ".join(filter(None, map(cell, one.get("examples") or [])))[:200],
        is_target=one["name"] == target,
    )


def _pictures(images: Iterable[Picture]) -> list[ClassPictures]:
    by_class: dict[str, list[str]] = {}
    for one in images:  # checked to be base64 of a PNG when it came
        by_class.setdefault(str(one.get("label", "")), []).append(f"data:image/png;base64,{one['png']}")
    return [ClassPictures(name, urls) for name, urls in sorted(by_class.items())]
