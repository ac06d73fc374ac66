"""What differs between the specs of several runs, and the table that shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from runs.models import Run

MAX_ROWS = 200
NOT_SET = "–"

Fields = dict[str, str]  # the leaves of a spec by their paths, as short texts


class Cell(NamedTuple):
    text: str
    is_other: bool  # than the base's


class Line(NamedTuple):
    path: str
    is_different: bool
    cells: list[Cell]


class SpecTable(NamedTuple):
    runs: Sequence[Run]
    base: str  # the id of the run that the others are held against
    lines: list[Line]
    is_whole: bool
    num_left_out: int


def differing(fields: Sequence[Fields]) -> list[str]:
    """Return the paths whose values are not the same in all specs: first those that are set to different values, then
    those that only some specs have; among these in the order in which specs have them."""
    found = [path for path in _paths(fields) if len({one.get(path) for one in fields}) > 1]
    return sorted(found, key=lambda path: len({one[path] for one in fields if path in one}) < 2)


def group_text(fields: Fields, by: Sequence[str]) -> str:
    """Name the group of a run, with the same words as static/js/shared/grouping.js."""
    return " · ".join(f"{path.rpartition('.')[2]} {fields.get(path, 'not set')}" for path in by)


def spec_table(
    runs: Sequence[Run], fields: dict[str, Fields], differ: Sequence[str], *, base: str, is_whole: bool
) -> SpecTable:
    """Return a line for each path that differs, or, when ``is_whole``, for each that any of the specs has."""
    base = base if base in fields else next((run.pk for run in runs), "")
    paths = _paths(list(fields.values())) if is_whole else list(differ)
    different = set(differ)
    lines = []
    for path in paths[:MAX_ROWS]:
        own = fields[base].get(path, NOT_SET)
        texts = [fields[run.pk].get(path, NOT_SET) for run in runs]
        lines.append(Line(path, path in different, [Cell(text, text != own) for text in texts]))
    return SpecTable(runs, base, lines, is_whole, max(0, len(paths) - MAX_ROWS))


def _paths(fields: Sequence[Fields]) -> list[str]:
    return list(dict.fromkeys(path for one in fields for path in one))
