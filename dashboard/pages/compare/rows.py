"""The runs of a comparison as its list shows them: what each reached, what is special about it, in groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dashboard.pages.compare.specs import Fields, group_text
from dashboard.pages.shared.badges import Badge, run_badge
from runs.models import Run
from runs.points import read
from runs.presenting.throughput import MFU, RATES
from trainyard.contract.answers.runs import SeriesSummary

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


class Group(NamedTuple):
    text: str  # "" where nothing is grouped
    rows: list[Compared]
    mean: float | None
    num_counted: int = 0  # in the mean: of runs of different length those that came farthest

    @property
    def words(self) -> str:
        is_whole = self.num_counted == len(self.rows)
        return "Mean over the group" if is_whole else f"Mean over the {self.num_counted} that came farthest"


class Metric(NamedTuple):
    """Which number of each run is shown, and those that could be."""

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
    """Runs without a number come last, whichever way numbers are ordered."""
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


def grouped(rows: Sequence[Compared], order: str, *, is_grouped: bool) -> list[Group]:
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
        groups.append(Group(text, members, mean, len(numbers)))
    if order in ("value", "-value"):
        sign = -1 if order.startswith("-") else 1
        groups.sort(key=lambda group: (group.mean is None, sign * (group.mean or 0)))
    return groups


def number_of(value: Number) -> float | None:
    """Return a finite number, or None for what is none."""
    return float(value) if isinstance(value, int | float) else None
