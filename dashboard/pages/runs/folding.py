"""Sweeps in the table of runs: each is one row, in the place of its best trial, and those that are opened have their
runs beneath."""

from collections.abc import Sequence
from typing import NamedTuple

from django.db.models import Q, QuerySet
from django.utils.html import escape

from dashboard.frontend.icons import icon
from dashboard.pages.runs import cells
from dashboard.pages.runs.address import Listed, Number, keys_of, whole
from dashboard.pages.runs.cells import Colouring
from dashboard.pages.shared import drawn, numbers
from dashboard.pages.shared.badges import badge
from dashboard.pages.shared.grid import Chosen, GridRow, write_columns
from runs.models import Run, Sweep, Trial
from runs.presenting.listing import IS_BEST
from runs.rights.access import Someone, visible_runs
from runs.sweeps.reading import SweepSummary, summaries_of
from trainyard.contract.statuses import TRIAL_FINAL

MOST_OPEN = 10
MOST_IN_SWEEP = 1000
OF_RUNS = ("throughput", "ranks", "duration", "mfu", "step", "left", "tag")  # columns that a sweep has nothing for
KEY = "sweep-"  # in front of the id, in the key of a row
STEPS = (200, 5_000, 200_000)  # how far one looks for an opened sweep, until it is found


class Part(NamedTuple):
    """Rows of the table that follow each other: ``num`` of the list from ``first`` on, or the ``keys`` of trials."""

    first: int
    num: int
    keys: Sequence[str] = ()


Entry = tuple[str, bool]  # a run's id, and whether it is a trial beneath its sweep


class Folded:
    """A list of runs with the trials of opened sweeps in it. ``trials`` are the runs that fit, of which those belong
    to sweeps."""

    def __init__(self, listed: Listed, trials: QuerySet[Run] | None, opened: Sequence[str]) -> None:
        self._listed, self.until, self.num_new = listed, listed.until, listed.num_new
        found = [(self._place(sweep), sweep) for sweep in opened[:MOST_OPEN]]
        places = sorted((place, sweep) for place, sweep in found if place >= 0)
        self._parts: list[Part] = []
        before = 0
        for place, sweep in places:
            assert trials is not None
            of_sweep = trials.filter(Q(trial__sweep=sweep) | Q(trial_seed__trial__sweep=sweep))
            keys = keys_of(of_sweep, listed.order, 0, MOST_IN_SWEEP)
            self._parts += [Part(before, place + 1 - before), Part(0, len(keys), keys)]
            before = place + 1
        self._before = before
        self._num_more = sum(part.num for part in self._parts if part.keys)

    def _place(self, sweep: str) -> int:
        """Return where the list has the run that stands for the sweep; -1 where it has none."""
        own = set(Run.objects.filter(trial__sweep=sweep).values_list("pk", flat=True))
        for most in STEPS if own else ():
            keys = self._listed.keys(most)
            place = next((at for at, key in enumerate(keys) if key in own), -1)
            if place >= 0 or len(keys) < most:
                return place
        return -1

    def number(self, most: int) -> Number:
        found = self._listed.number(most)
        return found._replace(num=found.num + self._num_more)

    def window(self, first: int, count: int) -> list[Entry]:
        found: list[Entry] = []
        at = 0
        for part in (*self._parts, Part(self._before, first + count)):
            skipped = max(0, first - at)
            wanted = min(part.num - skipped, count - len(found))
            if wanted > 0 and part.keys:
                found += [(key, True) for key in part.keys[skipped : skipped + wanted]]
            elif wanted > 0:
                found += [(key, False) for key in self._listed.keys(wanted, part.first + skipped)]
            at += part.num
        return found


def entries_of(user: Someone, keys: Sequence[str]) -> list[Entry]:
    runs, sweeps = visible_runs(user), [key.removeprefix(KEY) for key in keys if key.startswith(KEY)]
    best = list(runs.filter(IS_BEST, trial__sweep__in=sweeps).values_list("pk", flat=True)) if sweeps else []
    is_trial = Q(trial__isnull=False) | Q(trial_seed__isnull=False)
    inner = set(runs.filter(is_trial, pk__in=keys).values_list("pk", flat=True))
    others = runs.filter(pk__in=keys).values_list("pk", flat=True)
    return [*((key, False) for key in best), *((key, key in inner) for key in others)]


def lines(
    user: Someone,
    entries: Sequence[Entry],
    view: cells.Shown,
    may_act_in: set[str],
    colouring: Colouring | None,
    opened: Sequence[str],
    alone: str,
) -> list[GridRow]:
    """Return a row for each entry. The run ``alone``, which is asked for by its id, stands for no sweep."""
    runs = whole([key for key, _ in entries])
    there = {run.pk for run in runs}
    shown = [entry for entry in entries if entry[0] in there]
    sweeps = _sweeps([key for key, is_inner in shown if not is_inner and key != alone])
    made = []
    for (key, is_inner), row in zip(shown, cells.lines(user, runs, view, may_act_in, colouring), strict=True):
        if is_inner:
            row = row._replace(attributes=' aria-level="2"')
        elif key in sweeps:
            row = _sweep_row(row, sweeps[key], view, opened)
        made.append(row)
    return made


def _sweeps(ids: Sequence[str]) -> dict[str, SweepSummary]:
    of_runs = dict(Trial.objects.filter(run__in=ids).order_by().values_list("run_id", "sweep_id"))
    found = Sweep.objects.select_related("project", "created_by").filter(pk__in={*of_runs.values()})
    summaries = {one.row.pk: one for one in summaries_of(list(found))} if of_runs else {}
    return {run: summaries[sweep] for run, sweep in of_runs.items() if run and sweep in summaries}


def _sweep_row(row: GridRow, sweep: SweepSummary, view: cells.Shown, opened: Sequence[str]) -> GridRow:
    """Return the row of the sweep: what it says of itself, and what its best trial has in the other columns."""
    found = sweep.row
    num, num_ended = sum(sweep.counts.values()), sum(sweep.counts[state] for state in TRIAL_FINAL)
    words = f"{numbers.count(num)} trial{'' if num == 1 else 's'}"
    best = f", best {numbers.number(sweep.best.value)}" if sweep.best else ""
    tag = f'<span class="cell-tags"><span class="tag">{words}{escape(best)}</span></span>'
    status, progress = badge(found.status), drawn.progress(num_ended, sweep.spec.budget.trials, found.name)
    own: dict[str, str] = dict.fromkeys(OF_RUNS, drawn.NOTHING)
    own |= {
        "name": f'<span class="name-line">{drawn.opener("sweep", found.pk, found.name)}{tag}</span>',
        "status": drawn.titled(status, found.reason_sentence),
        "progress": f'<div class="is-{status.colour}">{progress}</div>',
        "created": f'<span class="muted">{drawn.age(found.created_at)}</span>',
        "ended": f'<span class="muted">{drawn.age(found.ended_at)}</span>',
    }
    is_open = found.pk in opened
    others = [one for one in opened if one != found.pk]
    toggled = write_columns([Chosen(one) for one in (others if is_open else [*others, found.pk])])
    attributes = f' aria-level="1" aria-expanded="{str(is_open).lower()}" data-toggled="{escape(toggled)}"'
    shown = [own.get(column.name, cell) for column, cell in zip(view.columns, row.cells, strict=True)]
    fold = f'<span class="grid-fold" title="Its trials (arrow keys)">{icon("chevron-right")}</span>'
    return GridRow(f"{KEY}{found.pk}", found.name, shown, attributes=attributes, fold=fold)
