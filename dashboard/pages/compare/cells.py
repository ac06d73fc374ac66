"""The list of a comparison as a table: a row for each run, heads of groups among them, and what differs as columns."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from dashboard.frontend.icons import icon
from dashboard.pages.compare.baseline import Difference
from dashboard.pages.compare.rows import Compared, CompareList, Metric, RunGroup
from dashboard.pages.compare.specs import Fields
from dashboard.pages.shared import drawn, numbers
from dashboard.pages.shared.grid import Column, GridRow, Head, Sort, draw_group, draw_rest, draw_rows, heads_of
from dashboard.pages.shared.run_rows import run_url
from dashboard.pages.sweeps.columns import labels_of

MAX_FIELDS = 20  # columns of what differs
QUIET = "btn btn-quiet btn-icon btn-small"


class Table(NamedTuple):
    heads: list[Head]
    rows: SafeString
    num_rows: int

    @property
    def num_columns(self) -> int:
        return len(self.heads) + 2


def table(
    listing: CompareList, metric: Metric, fields: Mapping[str, Fields], differ: Sequence[str], sorts: Sequence[Sort]
) -> Table:
    """Return the table. The address of a head is the value of ``sort`` alone: the whole may name a thousand runs."""
    columns = _columns(list(differ)[:MAX_FIELDS], metric, has_base=listing.base is not None)
    parts: list[str] = []
    place = 0
    for group in listing.groups:
        if group.text:
            parts.append(_head(group, columns, metric, place))
            place += 1
        rows = [_row(row, columns, metric, fields[row.run.pk], listing) for row in group.rows]
        parts.append(draw_rows(columns, rows, place, verb="Show"))
        place += len(rows)
        if group.text and group.num_more:
            parts.append(draw_rest(columns, group.text, place, f"{group.num_more:,} more of this group"))
            place += 1
    return Table(heads_of(columns, sorts, lambda sort: sort), mark_safe("".join(parts)), place)


def _columns(paths: Sequence[str], metric: Metric, *, has_base: bool) -> list[Column]:
    labels = labels_of(paths)
    return [
        Column("name", "Run", "Run", 140, is_pinned=True, can_sort=True, phone="", grows=True),
        Column("value", metric.name, f"{metric.name}, {metric.statistic}", 96, True, can_sort=True, phone=""),
        *([Column("against", "Against baseline", "Against the baseline", 230, phone="wide")] if has_base else []),
        Column("status", "Status", "Status", 116, can_sort=True, phone="end"),
        *(Column(path, labels[path], path, 96, can_sort=True, phone="") for path in paths),
    ]


def _row(row: Compared, columns: Sequence[Column], metric: Metric, own: Fields, listing: CompareList) -> GridRow:
    name = escape(row.run.name)
    note = f'{icon(row.note_icon)}<span class="visually-hidden">{row.note}: </span>' if row.note else ""
    drawn_of = {
        "name": f'<a class="name clip" dir="auto" tabindex="-1" data-open href="{run_url(row.run.pk)}"'
        f' title="{name}">{name}</a>',
        "value": f"{note}{escape(numbers.metric(row.value, metric.name))}",
        "against": _against(row.against, is_base=row.is_base, is_whole=not listing.remark),
        "status": drawn.titled(row.badge, row.run.reason_sentence),
    }
    cells = [drawn_of[one.name] if one.name in drawn_of else _setting(own.get(one.name, "")) for one in columns]
    return GridRow(row.run.pk, row.run.name, cells, row.colour, _actions(row, name), run=row.run.pk)


def _setting(text: str) -> str:
    return f'<span class="clip" dir="auto" title="{escape(text)}">{escape(text)}</span>' if text else drawn.NOTHING


def _actions(row: Compared, name: str) -> str:
    return (
        '<button class="run-dot" type="button" tabindex="-1" popovertarget="swatches" data-pick'
        f' aria-label="Colour of {name}"'
        ' title="Choose its colour"></button>'
        f'<button class="{QUIET}" type="button" tabindex="-1" data-base="{row.run.pk}"'
        f' aria-pressed="{str(row.is_base).lower()}" aria-label="Make {name} the baseline"'
        f' title="Baseline: the others are held against it">{icon("pin")}</button>'
        f'<button class="{QUIET}" type="button" tabindex="-1" data-close'
        f' aria-label="Take {name} out of the comparison" title="Take it out">{icon("close")}</button>'
    )


def _against(against: Difference | None, *, is_base: bool, is_whole: bool) -> str:
    """Return how far it is from the baseline, and, where ``is_whole``, what seeds say of that."""
    if against is None:
        return "baseline" if is_base else ""
    tone = f"{icon(against.icon)}<b>{against.tone}</b>: " if against.tone else ""
    words = against.sentence if is_whole else against.text
    classes = f"compare-against is-{against.tone or 'same'}"
    return f'<span class="{classes}" title="{escape(words)}">{tone}{escape(words)}</span>'


def _head(group: RunGroup, columns: Sequence[Column], metric: Metric, place: int) -> str:
    text, mean = escape(group.text), numbers.metric(group.mean, metric.name)
    drawn_of = {
        "name": f'<b class="clip" dir="auto" title="{text}">{text}</b>'
        f' <span class="muted">{group.num_runs:,} run{"" if group.num_runs == 1 else "s"}</span>',
        "value": f'<span title="{group.words}">{escape(mean)}</span>',
        "against": _against(group.against, is_base=group.has_base, is_whole=True),
    }
    return draw_group(columns, drawn_of, group.text, place, '<i class="run-dot"></i>', f'data-group="{text}"')
