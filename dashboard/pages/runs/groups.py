"""The table of runs in groups: a line for each group with what its runs have of the shown figures, and the runs of
those that are unfolded beneath."""

import json
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from itertools import pairwise
from typing import NamedTuple

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from dashboard.frontend.icons import icon
from dashboard.pages.runs import cells
from dashboard.pages.runs.address import Asked, Listed, opened_of, url_of
from dashboard.pages.shared import numbers
from dashboard.pages.shared.grid import Chosen, Column, Sort, draw_group, draw_rest, draw_rows, write_columns
from runs.finding import columns as finding
from runs.finding.columns import Group, GroupFigure
from runs.finding.fields import Cell
from runs.finding.queries import condition
from runs.models import Run
from runs.rights.access import Someone

MOST_GROUPS = 200
MOST_IN_GROUP = 100


class Drawn(NamedTuple):
    markup: SafeString
    num_rows: int  # with the lines of the groups
    words: str  # how many groups there are


def draw_groups(
    user: Someone,
    runs: QuerySet[Run],
    shown: cells.Shown,
    by: Sequence[str],
    sorts: Sequence[Sort],
    asked: Asked,
    may_act_in: set[str],
) -> Drawn:
    """Raises FilterError for a field that there is not."""
    figures = [column.name for column in shown.columns if column.is_number and cells.is_of_field(column.name)]
    found = finding.groups(runs, by, figures, MOST_GROUPS + 1)
    groups = ordered(found[:MOST_GROUPS], by, sorts)
    opened = opened_of(asked)
    parts, place = [], 0
    for group in groups:
        text = fitting(by, group.key)
        is_open = text in opened
        others = [one for one in opened if one != text]
        toggled = write_columns([Chosen(one) for one in (others if is_open else [*others, text])])
        parts.append(_line(shown.columns, by, group, place, toggled, is_open=is_open))
        place += 1
        if is_open:
            within = Listed(runs.filter(condition(text, timezone.now())), sorts)
            rows = cells.lines(user, within.window(0, MOST_IN_GROUP), shown, may_act_in)
            parts.append(draw_rows(shown.columns, rows, place))
            place += len(rows)
            if group.count > len(rows):
                words = f"({asked['filter']}) and {text}" if asked["filter"] else text
                url = url_of(asked, filter=words, group="", open="")
                rest = f"{group.count - len(rows):,} more: show all"
                link = f'<a data-open tabindex="-1" href="{escape(url)}">{rest}</a>'
                parts.append(draw_rest(shown.columns, text, place, link))
                place += 1
    more = "more than " if len(found) > MOST_GROUPS else ""
    words = f"in {more}{len(groups):,} group{'' if len(groups) == 1 else 's'}"
    return Drawn(mark_safe("".join(parts)), place, words)


def ordered(groups: Sequence[Group], by: Sequence[str], sorts: Sequence[Sort]) -> list[Group]:
    """Return the groups in the order of the first sort, by the best figure of each or by what they are grouped by;
    else the largest first, as they come."""
    first = sorts[0]
    if first.name in by:
        at = by.index(first.name)
        return sorted(groups, key=lambda group: _rank(group.key[at]), reverse=first.is_descending)
    by_best = sorted(groups, key=lambda group: _best(group, first.name) or 0.0, reverse=first.is_descending)
    return sorted(by_best, key=lambda group: _best(group, first.name) is None)


def _rank(cell: Cell) -> tuple[bool, float, str]:
    return isinstance(cell, str), cell if isinstance(cell, float) else 0.0, cell if isinstance(cell, str) else ""


def _best(group: Group, name: str) -> float | None:
    figure = group.figures.get(name)
    return figure.best if figure else None


def fitting(by: Sequence[str], key: Sequence[Cell]) -> str:
    """Return the filter that the runs of a group fit."""
    return " and ".join(f"{_field(name)} = {_value(cell)}" for name, cell in zip(by, key, strict=True))


def _field(name: str) -> str:
    return name if all(sign.isalnum() or sign in "._/-" for sign in name) else json.dumps(name, ensure_ascii=False)


def _value(cell: Cell) -> str:
    if cell is None:
        return "none"
    return repr(cell) if isinstance(cell, float) else json.dumps(cell, ensure_ascii=False)


def _line(columns: Sequence[Column], by: Sequence[str], group: Group, at: int, toggled: str, *, is_open: bool) -> str:
    values = zip(by, group.key, strict=True)
    label = " · ".join(f"{cells.kind_of(name).label} {_shown(name, cell)}" for name, cell in values)
    count = f"{group.count:,} run{'' if group.count == 1 else 's'}"
    drawn = {name: _figure(name, figure) for name, figure in group.figures.items() if figure.count}
    drawn["name"] = f'<b>{escape(label)}</b> <span class="muted">{count}</span>'
    attributes = f'aria-level="1" aria-expanded="{str(is_open).lower()}" data-toggled="{escape(toggled)}"'
    return draw_group(columns, drawn, fitting(by, group.key), at, icon("chevron-right"), attributes)


def _shown(name: str, cell: Cell) -> str:
    if cell is None:
        return "none"
    return _number(name, cell) if isinstance(cell, float) else cell


def _number(name: str, value: float | None) -> str:
    series = name.removeprefix("summary.").rpartition(".")[0]
    return numbers.metric(value, series) if name.startswith("summary.") else numbers.number(value)


def _figure(name: str, figure: GroupFigure) -> str:
    best, mean, low, high = (_number(name, one) for one in (figure.best, figure.mean, figure.low, figure.high))
    spread = f"<span>mean {escape(mean)}, {escape(low)} to {escape(high)}</span>" if figure.count > 1 else ""
    runs = f"{figure.count:,} run{'' if figure.count == 1 else 's'}"
    return f'<span class="grid-figure" title="of {runs}"><b>best {escape(best)}</b>{spread}</span>'


BINS, MOST_TEXTS = 24, 6
WIDTH, HEIGHT = 10, 40  # of a bar, in the units of the drawing
DOWN, UP = Context(6, ROUND_FLOOR), Context(6, ROUND_CEILING)


class Spread(NamedTuple):
    words: str
    bars: Sequence[dict[str, object]] = ()
    texts: Sequence[tuple[str, int]] = ()

    @property
    def width(self) -> int:
        return WIDTH * len(self.bars)


def spread_of(runs: QuerySet[Run], name: str) -> Spread:
    """Raises FilterError for a field that there is not."""
    found = finding.distribution(runs, name, BINS)
    if found is None:
        return Spread("No run has a value.")
    words, bars = [], []
    if found.counts:
        low, high = numbers.number(found.edges[0]), numbers.number(found.edges[-1])
        words.append(f"{numbers.count(sum(found.counts))} from {low} to {high}")
        spans = zip(pairwise(found.edges), found.counts, strict=True)
        bars = [_bar(place, *edges, count, max(found.counts)) for place, (edges, count) in enumerate(spans)]
    words += [f"{numbers.count(found.num_texts)} with a text"] if found.texts else []
    words += [f"{numbers.count(found.num_missing)} without a value"] if found.num_missing else []
    return Spread("; ".join(words), bars, found.texts[:MOST_TEXTS])


def _bar(place: int, low: float, high: float, count: int, most: int) -> dict[str, object]:
    height = round(HEIGHT * count / most, 1)
    words = f"{numbers.number(low)} to {numbers.number(high)}: {numbers.count(count)}"
    box = {"x": place * WIDTH, "y": HEIGHT - height, "height": height}
    return {**box, "low": _short(low, DOWN), "high": _short(high, UP), "words": words}


def _short(edge: float, rounding: Context) -> str:
    """Return it in six digits, rounded such that no value falls out."""
    return repr(float(rounding.create_decimal_from_float(edge)))
