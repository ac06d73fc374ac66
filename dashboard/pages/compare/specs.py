"""Differences between the specs of several runs, and the table that shows them. Pure."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from runs.models import Run
from trainyard.grouping import grouped

MAX_ROWS = 200
MAX_COLUMNS = 30  # runs side by side; of more the table has the values of each field with how many runs have them
MAX_VALUES = 6
NOT_SET = "–"
FEW_GROUPS = 8  # lines that are still told apart
SEED = "seed"  # last part of a path by which equal runs differ

Fields = dict[str, str]  # the leaves of a spec by their paths, as short texts


class Cell(NamedTuple):
    text: str
    is_other: bool  # than the base's


class SettingLine(NamedTuple):
    path: str
    is_different: bool
    cells: list[Cell]


class FieldValues(NamedTuple):
    """Values of one field over many runs: the most frequent ones with their counts, and how many more there are."""

    path: str
    values: list[tuple[str, int]]
    num_more: int


class SpecTable(NamedTuple):
    runs: Sequence[Run]
    base: str  # the id of the run that the others are held against
    sections: list[tuple[str, list[SettingLine]]]
    is_whole: bool
    num_lines: int
    num_left_out: int
    summary: list[tuple[str, list[FieldValues]]]  # instead of lines, where the runs are many

    @property
    def num_columns(self) -> int:
        return 1 + len(self.runs)

    @property
    def lines(self) -> list[SettingLine]:
        return [line for _, lines in self.sections for line in lines]


def differing(fields: Sequence[Fields]) -> list[str]:
    """Return the paths whose values are not the same in all specs: first those that are set to different values, then
    those that only some specs have; among these in the order in which specs have them."""
    values: dict[str, Counter[str]] = {}
    for one in fields:
        for path, text in one.items():
            values.setdefault(path, Counter())[text] += 1
    found = [path for path, counts in values.items() if len(counts) > 1 or counts.total() < len(fields)]
    return sorted(found, key=lambda path: len(values[path]) < 2)


def group_text(fields: Fields, by: Sequence[str]) -> str:
    """Name the group of a run, with the same words as static/js/shared/grouping.js."""
    return " · ".join(f"{path.rpartition('.')[2]} {fields.get(path, 'not set')}" for path in by)


def usual_group(fields: Sequence[Fields], differ: Sequence[str]) -> str:
    """Return the field by which very many runs are drawn where nobody chose one: the first with a few values that are
    no seeds; empty where there is none."""
    for path in differ:
        if path.rpartition(".")[2] != SEED and 2 <= len({one.get(path) for one in fields}) <= FEW_GROUPS:
            return path
    return ""


T = TypeVar("T", SettingLine, FieldValues)


def spec_table(
    runs: Sequence[Run], fields: dict[str, Fields], differ: Sequence[str], *, base: str, is_whole: bool
) -> SpecTable:
    """Return a line for each path that differs, or, when ``is_whole``, for each that any of the specs has."""
    base = base if base in fields else next((run.pk for run in runs), "")
    paths = list(dict.fromkeys(path for one in fields.values() for path in one)) if is_whole else list(differ)
    shown, left_out = paths[:MAX_ROWS], max(0, len(paths) - MAX_ROWS)
    if len(runs) > MAX_COLUMNS:
        summary = [_values(path, list(fields.values())) for path in shown]
        return SpecTable(runs, base, [], is_whole, len(shown), left_out, _in_sections(summary))
    different = set(differ)
    lines = []
    for path in shown:
        own = fields[base].get(path, NOT_SET)
        texts = [fields[run.pk].get(path, NOT_SET) for run in runs]
        lines.append(SettingLine(path, path in different, [Cell(text, text != own) for text in texts]))
    return SpecTable(runs, base, _in_sections(lines), is_whole, len(lines), left_out, [])


def _in_sections(lines: Sequence[T]) -> list[tuple[str, list[T]]]:
    pairs = ((line.path.partition(".")[0] if "." in line.path else "general", line) for line in lines)
    return list(grouped(pairs).items())


def _values(path: str, fields: Sequence[Fields]) -> FieldValues:
    counts = Counter(one.get(path, NOT_SET) for one in fields)
    return FieldValues(path, counts.most_common(MAX_VALUES), max(0, len(counts) - MAX_VALUES))
