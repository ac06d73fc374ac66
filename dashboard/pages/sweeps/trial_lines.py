"""The rows of the table of trials: each trial beside its run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dashboard.pages.shared.badges import Badge, badge, trial_badge
from dashboard.pages.shared.numbers import number, setting
from dashboard.pages.shared.run_rows import Row, coloured, rows, run_url
from dashboard.pages.sweeps.columns import labels_of
from dashboard.pages.sweeps.offers import has_seeds
from dashboard.pages.sweeps.trial_table import NEWEST, VALUE, Asked, Found, brush_words
from runs.models import Sweep
from runs.models.indexes import one_of
from runs.rights.access import Someone, visible_runs
from runs.sweeps.analysis.trials import MAXIMIZE
from runs.sweeps.reading import TrialRow
from trainyard.contract.statuses import TRIAL_FINAL, TrialState
from trainyard.spec.sweeps import Objective

LIVE = ("RUNNING",)


class ColumnHead(NamedTuple):
    """A column of the table that can be sorted. ``state`` is what ``aria-sort`` says."""

    label: str
    path: str
    url: str
    state: str


class TrialLine(NamedTuple):
    trial: TrialRow
    row: Row | None  # of its run, once it has one
    step: int | None
    badge: Badge
    url: str
    values: list[str]  # of the objectives
    parameters: list[tuple[str, str]]  # the label and the value of each field
    words: str  # why it ended
    can_promote: bool
    can_launch: bool  # again, outside of the sweep
    can_replay: bool  # what led to it, as one run

    @property
    def has_actions(self) -> bool:
        return self.can_promote or self.can_launch or self.can_replay


def trial_lines(user: Someone, sweep: Sweep, found: Found, asked: Asked, *, may_act: bool) -> Mapping[str, object]:
    spec = sweep.parsed
    paths = list(spec.space)
    labels = labels_of(paths)
    shown = _rows_of(user, found.trials)
    objectives = [one.metric for one in spec.objectives]
    is_population = spec.sampler.name == "population"
    axes = labels | {f"{VALUE}:{at}": name for at, name in enumerate(objectives)}
    return {
        "lines": [
            _line(one, shown.get(one.run or ""), labels, len(objectives), may_act=may_act, is_population=is_population)
            for one in found.trials
        ],
        "has_seeds": has_seeds(sweep),
        "num_found": found.total,
        "num_all": sweep.trials.count(),
        "number_head": _head("Trial", "number", asked, first=NEWEST),
        "value_heads": [_value_head(at, one, asked) for at, one in enumerate(spec.objectives)],
        "field_heads": [_head(labels[path], path, asked) for path in paths],
        "states": [(str(one).lower(), asked.url(state=one.lower()), asked.state == one) for one in TrialState],
        "all_url": asked.url(state=""),
        "state": asked.state,
        "brushes": [(brush_words(one, axes), _without(asked, one.axis)) for one in asked.brushes],
        "fragment_url": asked.url(fragment="trials", after="" if asked.after is None else str(asked.after)),
        "next_url": asked.url(after=found.next) if found.next else "",
        "first_url": asked.url() if asked.after is not None else "",
    }


def _rows_of(user: Someone, trials: Sequence[TrialRow]) -> dict[str, Row]:
    ids = [one.run for one in trials if one.run]
    runs = list(visible_runs(user).filter(one_of("pk", ids))) if ids else []
    return {row.run.pk: row for row in coloured(user, rows(runs))}


def _line(
    trial: TrialRow, row: Row | None, labels: Mapping[str, str], num_values: int, *, may_act: bool, is_population: bool
) -> TrialLine:
    values = [number(one) for one in trial.values[:num_values]]
    return TrialLine(
        trial=trial,
        row=row,
        step=row.step if row and row.step is not None else trial.steps,
        badge=badge(row.run.status) if row and trial.state in LIVE and row.run.is_live else trial_badge(trial.state),
        url=run_url(row.run.pk) if row else "",
        values=values + ["–"] * (num_values - len(values)),
        parameters=[(label, _shown(trial.parameters, path)) for path, label in labels.items()],
        words=trial.reason,
        can_promote=may_act and trial.state == TrialState.PRUNED and bool(trial.run),
        can_launch=may_act and trial.state in TRIAL_FINAL and trial.state != TrialState.FAILED,
        can_replay=may_act and is_population and trial.parent is not None,
    )


def _shown(parameters: Mapping[str, object], path: str) -> str:
    return setting(parameters[path]) if path in parameters else "–"


def _head(label: str, path: str, asked: Asked, *, first: str = "") -> ColumnHead:
    """A click sorts by the column, a second one the other way round."""
    now = asked.sort
    state = "ascending" if now == path else "descending" if now == f"-{path}" else "none"
    first = first or path
    wanted = first if state == "none" else f"-{path}" if state == "ascending" else path
    return ColumnHead(label, path, asked.url(sort=wanted), state)


def _value_head(at: int, objective: Objective, asked: Asked) -> ColumnHead:
    """The first click puts the best trial first."""
    path = f"{VALUE}:{at}"
    return _head(objective.metric, path, asked, first=f"-{path}" if objective.direction == MAXIMIZE else path)


def _without(asked: Asked, axis: str) -> str:
    return asked._replace(brushes=[one for one in asked.brushes if one.axis != axis]).url()
