"""A table of many rows as ``components/_grid.html`` draws it. It knows nothing of what the rows are.

A page chooses the columns and makes the markup of the cells; the address of the page says all of it, so that a link
shows the same. The first rows are in the page, further ones are fetched as they come into view.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

MAX_COLUMNS = 60
LEAST_WIDTH, MOST_WIDTH = 48, 900
ROW = {"compact": 28, "roomy": 36}  # pixels
WINDOW, MOST_AT_ONCE = 50, 200  # rows of a window, as static/js/grid/window.js has them
_UNSELECTED = ' aria-selected="false"'
_PART = re.compile(
    r"""(?P<sign>-?)(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^",@!]+))(?:@(?P<width>\d{1,4}))?(?P<pin>!?)(?:,|$)"""
)


class Chosen(NamedTuple):
    """A column as the address names it."""

    name: str
    width: int = 0  # pixels; 0: as wide as its kind is
    is_pinned: bool = False


class Column(NamedTuple):
    """``name`` is the address's, ``label`` the head's, ``title`` what the head says in full."""

    name: str
    label: str
    title: str
    width: int  # pixels
    is_number: bool = False
    is_pinned: bool = False
    can_sort: bool = False
    phone: str = "off"  # where a phone's card has it: "wide", "end", "" or "off"
    grows: bool = False  # it takes the room that the others leave
    can: str = "size"  # what its menu offers: sort, filter, group, move, size, spread
    chosen_width: int = 0  # pixels; 0: nobody chose one

    @property
    def classes(self) -> str:
        names = [f"phone-{self.phone}" if self.phone else "", "num" if self.is_number else ""]
        return " ".join(filter(None, [*names, "pinned" if self.is_pinned else ""]))


class Head(NamedTuple):
    column: Column
    colindex: int  # from 1, as ARIA counts; the first is of the checkboxes
    sort: str  # as ARIA names it
    place: int  # among several sorts, from 1; 0: it is no sort or the only one
    url: str  # sorts by this alone
    add_url: str  # sorts by this too


class GridRow(NamedTuple):
    """A row; ``cells`` has the markup of one cell for each column."""

    key: str
    name: str
    cells: Sequence[str]
    colour: int = 0  # as the classes of the series colours count, from 1
    actions: str = ""  # markup of the buttons at its end
    edge: int = 0  # the colour of its left edge; 0: none
    run: str = ""  # the id that its checkbox selects; empty: it has none
    attributes: str = ""  # further ones of the row
    fold: str = ""  # markup in the place of its checkbox


def read_columns(text: str) -> list[Chosen]:
    """Return the columns that a parameter of the address names: ``status!,train.steps@90,"a, b"`` is one that is
    pinned, one of 90 pixels, and one whose name has signs of this list, which stands in quotes. Each is named once."""
    found: dict[str, Chosen] = {}
    for part in _PART.finditer(text):
        width = min(MOST_WIDTH, max(LEAST_WIDTH, int(part["width"]))) if part["width"] else 0
        found.setdefault(_name(part), Chosen(_name(part), width, part["pin"] == "!"))
    return list(found.values())


def _name(part: re.Match[str]) -> str:
    return part["plain"] if part["quoted"] is None else re.sub(r"\\(.)", r"\1", part["quoted"])


def quoted(name: str) -> str:
    """Return the name as it stands in a list of the address."""
    if not set('",@!') & set(name):
        return name
    return '"' + re.sub(r'(["\\])', r"\\\1", name) + '"'


def write_columns(chosen: Sequence[Chosen]) -> str:
    return ",".join(
        f"{quoted(one.name)}{f'@{one.width}' if one.width else ''}{'!' if one.is_pinned else ''}" for one in chosen
    )


class Sort(NamedTuple):
    name: str
    is_descending: bool

    def __str__(self) -> str:
        return f"{'-' if self.is_descending else ''}{quoted(self.name)}"


def read_sorts(text: str) -> list[Sort]:
    """Return what a parameter of the address sorts or groups by; ``-`` in front is for the largest first."""
    found = {_name(part): Sort(_name(part), part["sign"] == "-") for part in reversed([*_PART.finditer(text)])}
    return list(reversed(found.values()))


def heads_of(columns: list[Column], sorts: Sequence[Sort], url: Callable[[str], str], *, first: int = 2) -> list[Head]:
    """Return the head of each column, of which ``first`` is the place of the first one. ``url`` gives the address with
    another value of ``sort``."""
    places = {one.name: place for place, one in enumerate(sorts, start=1)}
    made = []
    for index, column in enumerate(columns, start=first):
        place = places.get(column.name, 0)
        is_descending = place > 0 and sorts[place - 1].is_descending
        state = "none" if not place else "descending" if is_descending else "ascending"
        wanted = Sort(column.name, place > 0 and not is_descending)
        add = ",".join(map(str, [*(one for one in sorts if one.name != column.name), wanted]))
        made.append(Head(column, index, state, place if len(sorts) > 1 else 0, url(str(wanted)), url(add)))
    return made


def draw_rows(
    columns: Sequence[Column], rows: Sequence[GridRow], first: int, *, has_boxes: bool = True, verb: str = "Select"
) -> SafeString:
    """Return the markup of rows; ``first`` is the place of the first one in the whole list, from 0, and ``verb`` what
    their boxes do. No template: a window has a thousand cells."""
    num_before = 1 if has_boxes else 0
    starts = [
        f'<td role="gridcell" aria-colindex="{index}" class="{column.classes}" data-of="{escape(column.name)}"'
        + (f' data-label="{escape(column.label)}">' if not column.phone and column.name != "name" else ">")
        for index, column in enumerate(columns, start=num_before + 1)
    ]
    lines = []
    for place, row in enumerate(rows, start=first):
        cells = "".join(f"{start}{cell}</td>" for start, cell in zip(starts, row.cells, strict=True))
        lines.append(
            f'<tr role="row" class="grid-row series-{row.colour}" data-key="{escape(row.key)}" data-place="{place}"'
            f' aria-rowindex="{place + 2}"{row.attributes}{_UNSELECTED if row.run else ""}>'
            f"{_box(row, verb) if has_boxes else ''}"
            f'{cells}<td role="gridcell" aria-colindex="{len(columns) + num_before + 1}" class="actions-cell">'
            f'<div class="row-actions">{row.actions}</div></td></tr>'
        )
    return mark_safe("\n".join(lines))


def draw_group(
    columns: Sequence[Column], cells: Mapping[str, str], text: str, place: int, first: str, attributes: str
) -> str:
    """Return the line above the rows of the group ``text``: the markup of ``cells`` by column, and ``first`` in the
    place of the boxes."""
    drawn = "".join(
        f'<td role="gridcell" aria-colindex="{index}" class="{one.classes}" data-of="{escape(one.name)}"'
        + (f' data-label="{escape(one.label)}">' if cells.get(one.name) and one.name != "name" else ">")
        + f"{cells.get(one.name, '')}</td>"
        for index, one in enumerate(columns, start=2)
    )
    return (
        f'<tr role="row" class="grid-group" data-key="group-{escape(text)}" data-place="{place}"'
        f' aria-rowindex="{place + 2}" {attributes}><td role="gridcell" aria-colindex="1" class="check pinned">{first}'
        f'</td>{drawn}<td role="gridcell" aria-colindex="{len(columns) + 2}" class="actions-cell"></td></tr>'
    )


def draw_rest(columns: Sequence[Column], text: str, place: int, words: str) -> str:
    """Return the line below the rows of a group of which not all are there."""
    return (
        f'<tr role="row" class="grid-rest" data-key="rest-{escape(text)}" data-place="{place}"><td role="gridcell"'
        f' colspan="{len(columns) + 2}">{words}</td></tr>'
    )


def _box(row: GridRow, verb: str) -> str:
    edge = f'<i class="grid-edge series-{row.edge}"></i>' if row.edge else ""
    box = (
        f'<input class="row-check" type="checkbox" name="run" value="{escape(row.run)}" tabindex="-1"'
        f' aria-label="{verb} {escape(row.name)}" title="{verb} it (x)"><i class="run-dot"></i>'
    )
    return f'<td role="gridcell" aria-colindex="1" class="check pinned">{edge}{box if row.run else row.fold}</td>'


def place_of(text: str) -> int:
    """Return the number that a parameter of the address has; 0 for what is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0


def limit_of(query: Mapping[str, str]) -> int:
    return min(MOST_AT_ONCE, place_of(query.get("limit", "")) or WINDOW)
