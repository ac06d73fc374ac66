"""The runs of a comparison as its list shows them: what each reached, what is special about it, in groups."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from dashboard.pages.compare.baseline import UNKNOWN, Difference, difference, goal_of
from dashboard.pages.compare.specs import SEED, Fields, group_text
from dashboard.pages.shared.badges import Badge, run_badge
from dashboard.pages.shared.grid import Sort
from runs.finding.columns import Statistic
from runs.models import Run
from runs.presenting.measured import MFU, RATES
from runs.records.points import read
from trainyard import grouping

MAX_SHOWN = 200  # rows; the charts have every run
MAX_OF_GROUP = 5  # where not all rows are shown
LOSS = "train/loss"
MEDIAN = "median"  # over the steady part of a run, as its page says how fast it is
STATISTICS = {"last": "last", "min": "lowest", "max": "highest", MEDIAN: "median"}
Number = float | str | None  # what JSON has no number for comes as a word


class Compared(NamedTuple):
    run: Run
    badge: Badge
    colour: int  # from 1, as the classes of the series colours count
    value: Number
    note: str  # lowest or highest of them all
    group: str
    step: int | None = None  # the last one that its value may be compared at
    is_base: bool = False
    against: Difference | None = None  # where there is a baseline, and this is not it

    @property
    def note_icon(self) -> str:
        return {"lowest": "arrow-down", "highest": "arrow-up"}.get(self.note, "")


class RunGroup(NamedTuple):
    text: str  # "" where nothing is grouped
    rows: list[Compared]  # those that are shown
    mean: float | None
    num_counted: int = 0  # in the mean: of runs of different length those that came farthest
    num_runs: int = 0
    has_base: bool = False
    against: Difference | None = None

    @property
    def num_more(self) -> int:
        return self.num_runs - len(self.rows)

    @property
    def words(self) -> str:
        is_whole = self.num_counted == self.num_runs
        return "Mean over the group" if is_whole else f"Mean over the {self.num_counted} that came farthest"


class Metric(NamedTuple):
    """The metric and the statistic that are shown of each run, and the metrics that could be."""

    name: str
    statistic: str
    names: list[str]

    def of_runs(self, run_ids: Sequence[str]) -> dict[str, Number]:
        if self.statistic == MEDIAN:
            medians = read.steady_medians(list(run_ids), [self.name])
            return {run_id: medians.get(run_id, {}).get(self.name) for run_id in run_ids}
        found = read.summaries(run_ids, name=self.name)
        statistic = cast(Statistic, self.statistic)
        return {
            run_id: found[run_id][self.name][statistic] if self.name in found[run_id] else None for run_id in run_ids
        }


def choose_metric(names: Sequence[str], name: str, statistic: str) -> Metric:
    """Return what was asked for where a run has it, else the loss, else the first that there is. Of how fast a run is
    the median says more than the last step, which may have validated or saved a checkpoint."""
    if name not in names:
        name = LOSS if LOSS in names else next(iter(names), "")
    usual = MEDIAN if name in (*RATES, MFU) else "last"
    return Metric(name, statistic if statistic in STATISTICS else usual, list(names))


class CompareList(NamedTuple):
    groups: list[RunGroup]
    num_not_shown: int  # rows
    base: Run | None
    remark: str  # about noise, where all differences would say the same; else each says it


class Sides(NamedTuple):
    """Runs that are tested together against others, by a key: those of a group, or equal ones but for the seed."""

    key_of: Mapping[str, str]  # by run
    values: Mapping[str, list[float]]
    noun: str


def listed(
    runs: Sequence[Run],
    metric: Metric,
    colours: Mapping[str, int],
    fields: Mapping[str, Fields],
    differ: Sequence[str],
    by: Sequence[str],
    sorts: Sequence[Sort],
    base: str,
) -> CompareList:
    values = metric.of_runs([run.pk for run in runs])
    # A mean of values at the end has those of the same step, as the line of the group has it there.
    steps = read.last_steps(list(values), metric.name) if metric.statistic == "last" else {}
    rows = rows_of(runs, values, colours, fields, by, steps)
    chosen = next((row for row in rows if row.run.pk == base), None)
    sides = sides_of(rows, fields, differ, by)
    goal = goal_of(metric.name, list(values)) if chosen is not None else None
    if chosen is not None:
        rows = [_against(row, chosen, goal, sides) for row in rows]
    rows = ordered(rows, sorts, fields)
    groups = grouped(rows, sorts, is_grouped=bool(by))
    if chosen is not None and by:
        groups = _groups_against(groups, chosen, goal, sides)
    most = MAX_SHOWN if len(rows) <= MAX_SHOWN or not by else MAX_OF_GROUP
    shown = [group._replace(rows=group.rows[:most]) for group in groups[:MAX_SHOWN]]
    noises = {row.against.noise for row in rows if row.against and row.against.noise}
    remark = next(iter(noises)) if len(noises) == 1 and min(noises).startswith(UNKNOWN) else ""
    return CompareList(
        shown,
        len(rows) - sum(len(group.rows) for group in shown),
        chosen.run if chosen else None,
        f"{remark[:1].upper()}{remark[1:]}." if remark else "",
    )


def rows_of(
    runs: Sequence[Run],
    values: Mapping[str, Number],
    colours: Mapping[str, int],
    fields: Mapping[str, Fields],
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
            group=group_text(fields[run.pk], by),
            step=steps.get(run.pk),
        )
        for run in runs
    ]


def sides_of(rows: Sequence[Compared], fields: Mapping[str, Fields], differ: Sequence[str], by: Sequence[str]) -> Sides:
    others = [path for path in differ if path.rpartition(".")[2] != SEED]
    paths = by or others
    keys = {row.run.pk: "\n".join(fields[row.run.pk].get(path, "") for path in paths) for row in rows}
    members = grouping.grouped((keys[row.run.pk], row) for row in rows)
    is_same = not by or set(others) <= set(by)
    return Sides(keys, {key: at_end(some) for key, some in members.items()}, "seeds" if is_same else "runs")


def at_end(rows: Sequence[Compared]) -> list[float]:
    """Return the numbers of the runs that came farthest: values of different steps make no mean."""
    known = [(row.step or 0, number) for row in rows if (number := number_of(row.value)) is not None]
    farthest = max((step for step, _ in known), default=0)
    return [number for step, number in known if step == farthest]


def _against(row: Compared, base: Compared, goal: bool | None, sides: Sides) -> Compared:
    if row.run.pk == base.run.pk:
        return row._replace(is_base=True)
    key, other = sides.key_of[row.run.pk], sides.key_of[base.run.pk]
    own = [] if key == other else sides.values[key]  # of the baseline's own runs nothing is tested
    found = difference(goal, number_of(row.value), number_of(base.value), own, sides.values[other], sides.noun)
    found = _at_steps(found, row.step, base.step)
    return row._replace(against=found._replace(noise="", tone="") if key == other else found)


def _at_steps(found: Difference, step: int | None, base_step: int | None) -> Difference:
    """Values of different steps are no better and no worse for that."""
    if not step or not base_step or step == base_step:
        return found
    return found._replace(text=f"{found.text} (step {step:,} against {base_step:,})", tone="")


def _groups_against(groups: Sequence[RunGroup], base: Compared, goal: bool | None, sides: Sides) -> list[RunGroup]:
    other = next(group for group in groups if group.text == base.group)
    found = []
    for group in groups:
        if group is other:
            found.append(group._replace(has_base=True))
            continue
        own, others = (sides.values[sides.key_of[one.rows[0].run.pk]] for one in (group, other))
        against = difference(goal, group.mean, other.mean, own, others, sides.noun)
        steps = (max((row.step or 0 for row in one.rows), default=0) for one in (group, other))
        found.append(group._replace(against=_at_steps(against, *steps)))
    return found


def ordered(rows: Sequence[Compared], sorts: Sequence[Sort], fields: Mapping[str, Fields]) -> list[Compared]:
    """Return the rows in this order. Runs without a value come last, whichever way values are ordered."""
    found = list(rows)
    for sort in reversed(sorts):
        keys = [(_key_of(row, sort.name, fields[row.run.pk]), row) for row in found]
        known = sorted(((key, row) for key, row in keys if key), key=lambda one: one[0], reverse=sort.is_descending)
        found = [row for _, row in known] + [row for key, row in keys if key is None]
    return found


def _key_of(row: Compared, name: str, own: Fields) -> tuple[bool, float, str] | None:
    """Return what the row is ordered by: numbers before texts."""
    if name in ("name", "status"):
        return True, 0.0, row.run.name.lower() if name == "name" else row.badge.word
    if name == "value":
        number = number_of(row.value)
        return None if number is None else (False, number, "")
    text = own.get(name)
    if text is None:
        return None
    number = figure(text)
    return (True, 0.0, text) if number is None else (False, number, "")


def grouped(rows: Sequence[Compared], sorts: Sequence[Sort], *, is_grouped: bool) -> list[RunGroup]:
    """Return the groups in the order in which their first rows stand, or of their means where values are ordered;
    one without a name where nothing is grouped."""
    groups = []
    for text, members in grouping.grouped((row.group, row) for row in rows).items():
        numbers = at_end(members)
        mean = sum(numbers) / len(numbers) if numbers and is_grouped else None
        groups.append(RunGroup(text, members, mean, len(numbers), len(members)))
    if sorts and sorts[0].name == "value":
        sign = -1 if sorts[0].is_descending else 1
        groups.sort(key=lambda group: (group.mean is None, sign * (group.mean or 0)))
    return groups


def number_of(value: Number) -> float | None:
    """Return a finite number, or None for what is none."""
    return float(value) if isinstance(value, int | float) else None


def figure(text: str) -> float | None:
    """Return the finite number that the text is, or None."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
