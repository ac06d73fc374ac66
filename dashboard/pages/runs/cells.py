"""Columns of the table of runs, the markup of their cells, and colours of rows by a field."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from dashboard.pages.shared import drawn, numbers
from dashboard.pages.shared.grid import Chosen, Column, GridRow
from dashboard.pages.shared.run_rows import LOSS, SPARK_POINTS, Offers, Row, coloured, offers_of, rows, spark_path
from dashboard.pages.shared.sheet import Kind
from runs.finding import columns as finding
from runs.finding.fields import FIXED, read_field
from runs.finding.language import FilterError, FilterText
from runs.models import Run
from runs.records.points import read
from runs.rights.access import Someone
from trainyard.formats import figures

MOST_TEXTS = 9
RANGES = 5


class Colouring(NamedTuple):
    name: str
    texts: list[str]
    edges: list[float]  # between the ranges of numbers

    def of(self, value: float | str | None) -> int:
        """Return the colour of a value; 0 for one that has none."""
        if isinstance(value, str):
            return self.texts.index(value) + 1 if value in self.texts else 0
        return 0 if value is None or not self.edges else bisect_right(self.edges[1:-1], value) + 1

    def of_runs(self, runs: Sequence[Run]) -> dict[str, int]:
        return {key: self.of(found[self.name]) for key, found in finding.values(runs, [self.name]).items()}

    @property
    def swatches(self) -> list[tuple[int, str]]:
        """Each colour, from 1 as the classes of the series colours count, with words."""
        if self.texts:
            return list(enumerate(self.texts, start=1))
        shown = [numbers.number(edge) for edge in self.edges]
        return list(enumerate((f"{low} to {high}" for low, high in pairwise(shown)), start=1))


def colouring_of(runs: QuerySet[Run], name: str) -> Colouring | None:
    """Return None where no run has a value. Raises FilterError for a field that there is not."""
    found = finding.distribution(runs, name, RANGES)
    if found is None:
        return None
    texts = [text for text, _ in found.texts[:MOST_TEXTS]]
    return Colouring(name, texts, [] if texts else found.edges)


OF_GROUPS = 176  # pixels
MAX_TAGS = 3  # of a run, shown in its row
SPARK = "spark:"
LAST_LOSS = f"summary.{LOSS}.last"
DEFAULT = ("status", "progress", "spark:train/loss", "summary.train/loss.last", "throughput", "ranks", "user",
           "created", "duration")  # fmt: skip
ID, NAME = "RUN-ID", "RUN-NAME"

Value = float | str | None


class Seen(NamedTuple):
    row: Row
    values: Mapping[str, Value]  # of the fields among the columns
    sparks: Mapping[str, str]  # SVG paths by series
    runs_url: str


def _name(seen: Seen) -> str:
    run = seen.row.run
    idle = ""
    if mark := seen.row.idle:
        used = figures.percent(round(mark.percent, 1) / 100)
        idle = f'<span class="tag" title="{escape(mark.sentence)}">idle, {used} used</span>'
    return f'<span class="name-line">{drawn.opener("run", run.pk, run.name)}{idle}{_tags(seen, MAX_TAGS)}</span>'


def _tags(seen: Seen, most: int) -> str:
    tags = seen.row.run.tags
    links = [
        f'<a class="tag" tabindex="-1" href="{seen.runs_url}?{urlencode({"tag": tag})}">{escape(tag)}</a>'
        for tag in tags[:most]
    ]
    more = f'<span class="faint xs">+{len(tags) - most}</span>' if len(tags) > most else ""
    return f'<span class="cell-tags">{"".join(links)}{more}</span>' if tags else ""


def _progress(seen: Seen) -> str:
    row = seen.row
    return drawn.progress(row.step, row.steps, row.run.name, row.badge.colour)


def _throughput(seen: Seen) -> str:
    row = seen.row
    return drawn.NOTHING if row.rate is None else numbers.number(row.rate, row.rate_unit)


def _ranks(seen: Seen) -> str:
    if seen.row.run.is_local:
        return '<span class="faint" title="Logged outside of Trainyard">–</span>'
    return f"{seen.row.nodes} × {seen.row.processes}"


def _muted(text: str) -> str:
    return f'<span class="muted">{text}</span>'


KINDS: dict[str, Kind[Seen]] = {
    "name": Kind("Name", 200, _name, phone=""),
    "status": Kind("Status", 116, lambda seen: drawn.titled(seen.row.badge, seen.row.run.reason_sentence), phone="end"),
    "progress": Kind("Progress", 150, _progress, phone="wide"),
    "throughput": Kind("Throughput", 100, _throughput, is_number=True),
    "ranks": Kind("Ranks", 56, _ranks, is_number=True),
    "user": Kind("Who", 88, lambda seen: escape(seen.row.run.created_by or "–")),
    "project": Kind("Project", 110, lambda seen: escape(seen.row.run.project.name)),
    "created": Kind("When", 88, lambda seen: _muted(drawn.age(seen.row.run.created_at)), phone=""),
    "ended": Kind("Ended", 96, lambda seen: _muted(drawn.age(seen.row.run.ended_at))),
    "duration": Kind("Took", 96, lambda seen: _muted(numbers.duration(seen.row.duration_s)), is_number=True, phone=""),
    "tag": Kind("Tags", 160, lambda seen: _tags(seen, 10) or drawn.NOTHING),
    "id": Kind("Id", 110, lambda seen: f'<code class="xs">{seen.row.run.pk}</code>'),
    "mfu": Kind("MFU", 72, lambda seen: seen.row.mfu or drawn.NOTHING, is_number=True),
    "step": Kind("Step", 80, lambda seen: numbers.count(seen.row.step), is_number=True),
    "left": Kind("Left", 80, lambda seen: numbers.duration(seen.row.eta_s), is_number=True),
}  # fmt: skip
SORTED = ("status", "name", "user", "project", "created", "ended")  # of these, what runs are sorted by


def kind_of(name: str) -> Kind[Seen]:
    """Return what draws the column of that name. Raises FilterError where there is no such field."""
    if name in KINDS:
        return KINDS[name]
    if name.startswith(SPARK):
        series = name.removeprefix(SPARK)
        return Kind(series, 104, lambda seen: drawn.sparkline(seen.sparks.get(series, ""), series))
    if name == LAST_LOSS:  # every row has it
        return Kind(f"{LOSS} last", 116, lambda seen: _figure(finding.plain(seen.row.loss), LOSS), "", True, "")
    if read_field(FilterText(name, 0)).kind == "summary":
        series, _, statistic = name.removeprefix("summary.").rpartition(".")
        return Kind(f"{series} {statistic}", 116, lambda seen: _figure(seen.values.get(name), series), "", True, "")
    return Kind(name.rpartition(".")[2], 110, lambda seen: _setting(seen.values.get(name)))


def _figure(value: Value, series: str) -> str:
    return drawn.NOTHING if value is None else escape(numbers.metric(value, series))


def _setting(value: Value) -> str:
    text = "" if value is None else numbers.setting(value)
    return drawn.clipped(text) if text else drawn.NOTHING


def is_of_field(name: str) -> bool:
    """Return whether the column shows a field of the spec or a figure of a series."""
    return name not in KINDS and not name.startswith(SPARK)


class Shown(NamedTuple):
    columns: list[Column]
    kinds: list[Kind[Seen]]
    unknown: list[str]  # names that are no field


def shown(chosen: Sequence[Chosen], *, is_grouped: bool = False) -> Shown:
    """Return the columns of those names, the name first: it stays where it is when one scrolls sideways."""
    named = {one.name: one for one in chosen}
    ordered = [named.pop("name", Chosen("name"))._replace(is_pinned=True), *named.values()]
    ordered.sort(key=lambda one: not one.is_pinned)
    columns, kinds, unknown = [], [], []
    for one in ordered:
        try:
            kind = kind_of(one.name)
        except FilterError:
            unknown.append(one.name)
            continue
        is_field = is_of_field(one.name)
        title, grows = one.name if is_field else kind.label, one.name == "name" and not one.width
        of_groups = OF_GROUPS if is_grouped and is_field and kind.is_number else 0  # mean, best and spread are there
        width = one.width or max(kind.width, of_groups)
        can_sort = is_field or one.name in SORTED
        can = [("sort", can_sort), ("filter", is_field or one.name in FIXED), ("move", one.name != "name"),
               ("group", is_field or one.name in FIXED), ("size", True), ("spread", is_field)]  # fmt: skip
        looks = (kind.is_number, one.is_pinned, can_sort, kind.phone, grows)
        menu = " ".join(name for name, is_there in can if is_there)
        columns.append(Column(one.name, kind.label, title, width, *looks, menu, one.width))
        kinds.append(kind)
    return Shown(columns, kinds, unknown)


def lines(
    user: Someone, runs: Sequence[Run], view: Shown, may_act_in: set[str], colouring: Colouring | None = None
) -> list[GridRow]:
    """Return a row for each run, in few queries for any number."""
    edges = colouring.of_runs(runs) if colouring else {}
    found = coloured(user, rows(runs, now=timezone.now()))
    ids, runs_url = [run.pk for run in runs], reverse("runs")
    asked = [column.name for column in view.columns if is_of_field(column.name) and column.name != LAST_LOSS]
    values = finding.values(runs, asked) if asked else {}
    sparks = _sparks(ids, [one.name.removeprefix(SPARK) for one in view.columns if one.name.startswith(SPARK)])
    made = []
    for row in found:
        run = row.run
        seen = Seen(row, values.get(run.pk, {}), {**sparks.get(run.pk, {}), LOSS: row.spark}, runs_url)
        buttons = row_actions(run) if run.project_id in may_act_in else ""
        cells = [kind.draw(seen) for kind in view.kinds]
        made.append(GridRow(run.pk, run.name, cells, row.colour, buttons, edges.get(run.pk, 0), run.pk))
    return made


def _sparks(ids: Sequence[str], names: Sequence[str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for name in set(names) - {LOSS}:  # every row has that
        for run_id, points in read.sparklines(ids, name, SPARK_POINTS).items():
            found.setdefault(run_id, {})[name] = spark_path(points)
    return found


# The buttons at the end of a row.
#
# Runs that offer the same buttons differ by id and name alone, so the buttons are drawn once and then filled in.


def row_actions(run: Run) -> SafeString:
    buttons = _buttons(offers_of(run))
    return mark_safe(buttons.replace(ID, run.pk).replace(NAME, escape(run.name)))  # the name last: it may hold any text


@cache
def _buttons(offers: Offers) -> str:
    return render_to_string("runs/_row_actions.html", {"offers": offers, "run_id": ID, "name": NAME})
