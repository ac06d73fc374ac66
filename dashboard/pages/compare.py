"""Several runs side by side: their charts in one, what they reached, and what of their specs differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from django.http import HttpRequest, HttpResponse

from dashboard.pages.shared.badges import Badge, run_badge
from dashboard.pages.shared.chart_runs import charts_context
from dashboard.pages.shared.frame import page, person, show
from dashboard.pages.shared.run_colours import colours_apart
from runs.models import Run
from runs.presenting.measured import MFU, RATES
from runs.records.points import read
from runs.rights.access import Permission, visible_runs
from runs.rights.access.operations import lists
from trainyard.contract.answers.runs import SeriesSummary

MAX_ROWS = 200
NOT_SET = "–"

Fields = dict[str, str]  # the leaves of a spec by their paths, as short texts
MAX_FACTS = 4
LOSS = "train/loss"
MEDIAN = "median"  # over the steady part of a run, as its page says how fast it is
STATISTICS = {"last": "last", "min": "lowest", "max": "highest", MEDIAN: "median"}
ORDERS = {
    "": "as chosen",
    "value": "lowest value first",
    "-value": "highest value first",
    "name": "by name",
    "status": "by status",
}

Number = float | str | None  # what JSON has no number for comes as a word
Summaries = Mapping[str, Mapping[str, SeriesSummary]]  # by run and series
MAX_RUNS = 100
MAX_CHARS = 500  # of a parameter
BANDS = {"minmax": "min to max", "sd": "± SD", "ci": "95 % CI"}
COLOURS = ("blue", "copper", "teal", "pink", "olive", "sky", "brick", "violet", "grey", "green")
FRAGMENTS = {"list": "runs/_compare_list.html", "specs": "runs/_compare_specs.html"}


@page(get=lists(Permission.RUNS_READ))
def compare(request: HttpRequest) -> HttpResponse:
    asked = list(dict.fromkeys(one[:MAX_CHARS] for one in request.GET.getlist("run") if one))
    runs = _runs(request, asked[:MAX_RUNS])
    colours = colours_apart(request.user, runs)
    charts = charts_context(person(request), runs, colours=colours)["charts"]
    fields: dict[str, Fields] = {one["id"]: one["fields"] for one in charts["runs"]}
    differ = differing(list(fields.values()))
    for one in charts["runs"]:  # nobody groups by what is the same everywhere
        one["fields"] = {path: text for path, text in one["fields"].items() if path in differ}
    context = {
        "charts": charts,
        "num_runs": len(runs),
        "warning": _warning(asked, len(runs)),
        "colour_names": list(enumerate(COLOURS, start=1)),
        **_list(request, runs, colours, fields, differ),
        "specs": spec_table(runs, fields, differ, base=_asked(request, "base"), is_whole=_asked(request, "all") == "1"),
    }
    return show(request, "runs/compare.html", context, fragments=FRAGMENTS)


def _list(
    request: HttpRequest, runs: Sequence[Run], colours: dict[str, int], fields: dict[str, Fields], differ: list[str]
) -> dict[str, object]:
    summaries = read.summaries([run.pk for run in runs])
    metric = choose_metric(summaries, _asked(request, "metric"), _asked(request, "statistic"))
    by = [path for path in _asked(request, "group").split(",") if path in differ]
    values = metric.of_runs(summaries)
    order = _asked(request, "sort")
    steps = metric.steps_of(list(values))
    rows = ordered(rows_of(runs, values, colours, fields, differ, by, steps), order)
    return {
        "groups": grouped(rows, order, is_grouped=bool(by)),
        "is_grouped": bool(by),
        "group_by": [(path, path in by) for path in differ],
        "group_names": ", ".join(path.rpartition(".")[2] for path in by),
        "bands": BANDS,
        "band": _asked(request, "band"),
        "metric": metric,
        "statistics": STATISTICS,
        "order": order,
        "orders": ORDERS,
    }


def _asked(request: HttpRequest, name: str) -> str:
    return request.GET.get(name, "").strip()[:MAX_CHARS]


def _runs(request: HttpRequest, ids: Sequence[str]) -> list[Run]:
    """Return those of the runs that the person may see, in the order in which they were named."""
    found = visible_runs(request.user).in_bulk(list(ids))
    return [found[run_id] for run_id in ids if run_id in found]


def _warning(asked: Sequence[str], num_found: int) -> str:
    """The sentence about runs that are not shown: how many, and never which."""
    sentences = []
    if len(asked) > MAX_RUNS:
        sentences.append(f"This address names {len(asked)} runs; the first {MAX_RUNS} are compared.")
    if num_missing := min(len(asked), MAX_RUNS) - num_found:
        words = "One run of this address is" if num_missing == 1 else f"{num_missing} runs of this address are"
        sentences.append(f"{words} not shown: deleted, or not yours to see.")
    return " ".join(sentences)


# The runs of a comparison as its list shows them: what each reached, what is special about it, in groups.


class Fact(NamedTuple):
    path: str
    name: str
    text: str


class Compared(NamedTuple):
    run: Run
    badge: Badge
    colour: int  # from 1, as the classes of the series colours count
    value: Number
    note: str  # lowest or highest of them all
    facts: list[Fact]
    num_more_facts: int
    group: str
    step: int | None = None  # the last one that its value may be compared at

    @property
    def note_icon(self) -> str:
        return {"lowest": "arrow-down", "highest": "arrow-up"}.get(self.note, "")


class RunGroup(NamedTuple):
    text: str  # "" where nothing is grouped
    rows: list[Compared]
    mean: float | None
    num_counted: int = 0  # in the mean: of runs of different length those that came farthest

    @property
    def words(self) -> str:
        is_whole = self.num_counted == len(self.rows)
        return "Mean over the group" if is_whole else f"Mean over the {self.num_counted} that came farthest"


class Metric(NamedTuple):
    """The metric and the statistic that are shown of each run, and the metrics that could be."""

    name: str
    statistic: str
    names: list[str]

    def steps_of(self, run_ids: Sequence[str]) -> dict[str, int]:
        """Return how far each run came, where values at the end are shown: a mean has those of the same step, as the
        line of the group has it there."""
        return read.last_steps(run_ids, self.name) if self.statistic == "last" else {}

    def of_runs(self, summaries: Summaries) -> dict[str, Number]:
        if self.statistic == MEDIAN:
            medians = read.steady_medians(list(summaries), [self.name])
            return {run_id: medians.get(run_id, {}).get(self.name) for run_id in summaries}
        return {run_id: _statistic(summary.get(self.name), self.statistic) for run_id, summary in summaries.items()}


def _statistic(summary: SeriesSummary | None, name: str) -> Number:
    if summary is None:
        return None
    return {"last": summary["last"], "min": summary["min"], "max": summary["max"]}[name]


def choose_metric(summaries: Summaries, name: str, statistic: str) -> Metric:
    """Return what was asked for where a run has it, else the loss, else the first that there is. Of how fast a run is
    the median says more than the last step, which may have validated or saved a checkpoint."""
    names = sorted({one for summary in summaries.values() for one in summary})
    if name not in names:
        name = LOSS if LOSS in names else next(iter(names), "")
    usual = MEDIAN if name in (*RATES, MFU) else "last"
    return Metric(name, statistic if statistic in STATISTICS else usual, names)


def rows_of(
    runs: Sequence[Run],
    values: Mapping[str, Number],
    colours: Mapping[str, int],
    fields: Mapping[str, Fields],
    differ: Sequence[str],
    by: Sequence[str],
    steps: Mapping[str, int],
) -> list[Compared]:
    numbers = {number for value in values.values() if (number := number_of(value)) is not None}
    notes = {min(numbers): "lowest", max(numbers): "highest"} if len(numbers) > 1 else {}
    return [
        Compared(
            run=run,
            badge=run_badge(run),
            colour=colours[run.pk] + 1,
            value=values[run.pk],
            note=notes.get(number, "") if (number := number_of(values[run.pk])) is not None else "",
            facts=(facts := facts_of(fields[run.pk], differ))[:MAX_FACTS],
            num_more_facts=max(0, len(facts) - MAX_FACTS),
            group=group_text(fields[run.pk], by),
            step=steps.get(run.pk),
        )
        for run in runs
    ]


def facts_of(fields: Fields, differ: Sequence[str]) -> list[Fact]:
    return [Fact(path, path.rpartition(".")[2], fields[path]) for path in differ if fields.get(path)]


def ordered(rows: list[Compared], order: str) -> list[Compared]:
    """Return the rows in this order. Runs without a number come last, whichever way numbers are ordered."""
    if order == "name":
        return sorted(rows, key=lambda row: row.run.name.lower())
    if order == "status":
        return sorted(rows, key=lambda row: row.badge.word)
    if order in ("value", "-value"):
        sign = -1 if order.startswith("-") else 1
        numbers = [(number_of(row.value), row) for row in rows]
        known = [(sign * number, row) for number, row in numbers if number is not None]
        return [row for _, row in sorted(known, key=lambda one: one[0])] + [row for one, row in numbers if one is None]
    return rows


def grouped(rows: Sequence[Compared], order: str, *, is_grouped: bool) -> list[RunGroup]:
    """Return the groups in the order in which their first rows stand, or of their means where values are ordered;
    one without a name where nothing is grouped."""
    found: dict[str, list[Compared]] = {}
    for row in rows:
        found.setdefault(row.group, []).append(row)
    groups = []
    for text, members in found.items():
        known = [(row.step or 0, number) for row in members if (number := number_of(row.value)) is not None]
        farthest = max((step for step, _ in known), default=0)
        numbers = [number for step, number in known if step == farthest]
        mean = sum(numbers) / len(numbers) if numbers and is_grouped else None
        groups.append(RunGroup(text, members, mean, len(numbers)))
    if order in ("value", "-value"):
        sign = -1 if order.startswith("-") else 1
        groups.sort(key=lambda group: (group.mean is None, sign * (group.mean or 0)))
    return groups


def number_of(value: Number) -> float | None:
    """Return a finite number, or None for what is none."""
    return float(value) if isinstance(value, int | float) else None


# Differences between the specs of several runs, and the table that shows them.


class Cell(NamedTuple):
    text: str
    is_other: bool  # than the base's


class SettingLine(NamedTuple):
    path: str
    is_different: bool
    cells: list[Cell]


class SpecTable(NamedTuple):
    runs: Sequence[Run]
    base: str  # the id of the run that the others are held against
    lines: list[SettingLine]
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
        lines.append(SettingLine(path, path in different, [Cell(text, text != own) for text in texts]))
    return SpecTable(runs, base, lines, is_whole, max(0, len(paths) - MAX_ROWS))


def _paths(fields: Sequence[Fields]) -> list[str]:
    return list(dict.fromkeys(path for one in fields for path in one))
