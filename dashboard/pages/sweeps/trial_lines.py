"""The table of trials: each trial beside its run."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from django.db.models import F
from django.http import HttpRequest, QueryDict
from django.utils import timezone
from django.utils.html import escape

from dashboard.pages.shared import drawn, numbers
from dashboard.pages.shared.badges import Badge, badge, trial_badge
from dashboard.pages.shared.grid import GridRow, Sort
from dashboard.pages.shared.run_rows import LOSS, Row, coloured, rows, run_url
from dashboard.pages.shared.sheet import Kind, Sheet
from dashboard.pages.shared.stencil import stencil
from dashboard.pages.sweeps.columns import labels_of
from dashboard.pages.sweeps.verbs import has_seeds
from runs.models import Sweep
from runs.models import Trial as TrialRow
from runs.models.indexes import one_of
from runs.rights.access import Permission, can, visible_runs
from runs.sweeps.analysis.best import TrialPoint, is_number, text_of
from runs.sweeps.reading import sweep_trials, trial_points
from trainyard.contract.answers.sweeps import Trial
from trainyard.contract.statuses import TRIAL_FINAL, TrialState

MAX_BRUSHES = 40
NEWEST, OLDEST = "-number", "number"
VALUE = "value"  # the axis of an objective is this, a colon and its place
LIVE = ("RUNNING",)
KEY = "trial-"  # in front of the number


class TrialLine(NamedTuple):
    trial: Trial
    row: Row | None  # of its run, once it has one

    @property
    def badge(self) -> Badge:
        is_of_run = self.row is not None and self.trial["state"] in LIVE and self.row.run.is_live
        return badge(self.row.run.status) if is_of_run and self.row else trial_badge(self.trial["state"])


class TrialTable:
    def __init__(self, request: HttpRequest, sweep: Sweep) -> None:
        self._request, self._sweep = request, sweep
        self._labels = labels_of(list(sweep.parsed.space))
        self._asked = asked_of(request.GET)
        kept = self._asked.query
        self.sheet = Sheet(request, "Trials", "trial", self._kinds(), Sort("name", True), kept=kept, has_boxes=True)

    @property
    def keys(self) -> list[str]:
        return [f"{KEY}{number}" for number in numbers_of(self._sweep, self._asked, self.sheet.order)]

    def context(self) -> Mapping[str, object]:
        num_all, sheet = self._sweep.trials.count(), self.sheet
        axes = self._labels | {f"{VALUE}:{at}": one.metric for at, one in enumerate(self._sweep.parsed.objectives)}
        by_state = [(x.lower(), sheet.url(state=x.lower()), self._asked.state == x) for x in map(str, TrialState)]
        return {
            **sheet.context(self.keys, self.rows),
            "num_all": num_all,
            "states": [("all", sheet.url(state=""), not self._asked.state), *by_state],
            "brushes": [(brush_words(one, axes), self._without(one.axis)) for one in self._asked.brushes],
        }

    def rows(self, keys: Sequence[str]) -> list[tuple[GridRow, TrialLine]]:
        """Return the rows of these keys, of which only the trials are read whole."""
        wanted = [int(key.removeprefix(KEY)) for key in keys]
        known = {one["number"]: one for one in sweep_trials(self._sweep, timezone.now(), numbers=wanted)}
        trials = [known[number] for number in wanted if number in known]
        ids = [one["run"] for one in trials if one["run"]]
        runs = list(visible_runs(self._request.user).filter(one_of("pk", ids))) if ids else []
        seen = {row.run.pk: row for row in coloured(self._request.user, rows(runs))}
        may_act = can(self._request.user, self._sweep.project, Permission.SWEEPS_LAUNCH)
        found = []
        for trial in trials:
            row = seen.get(trial["run"] or "")
            key, name = f"{KEY}{trial['number']}", f"trial {trial['number']}"
            actions = self._actions(trial) if may_act else ""
            colour, run = (row.colour, row.run.pk) if row else (0, "")
            found.append((GridRow(key, name, (), colour, actions, run=run), TrialLine(trial, row)))
        return found

    def _kinds(self) -> dict[str, Kind[TrialLine]]:
        objectives = enumerate(self._sweep.parsed.objectives)
        return {
            "name": Kind("Trial", 130, _name, sort=OLDEST, phone=""),
            "status": Kind("Status", 116, lambda line: drawn.titled(line.badge, line.trial["reason"]), phone="end"),
            **{
                f"{VALUE}:{at}": Kind(one.metric, 116, partial(_value, at=at), f"{VALUE}:{at}", True, "")
                for at, one in objectives
            },
            **{
                path: Kind(label, 120, partial(_setting, path=path), path, True, "")
                for path, label in self._labels.items()
            },
            "progress": Kind("Progress", 150, _progress, phone="wide"),
            LOSS: Kind(LOSS, 104, lambda one: drawn.sparkline(one.row.spark, LOSS) if one.row else ""),
            "took": Kind("Took", 84, _took, is_number=True),
        }

    def _actions(self, trial: Trial) -> str:
        buttons = stencil(
            "sweeps/_row_actions.html", ("sweep_id", "number"), has_seeds=has_seeds(self._sweep),
            can_promote=trial["state"] == TrialState.PRUNED and bool(trial["run"]),
            can_launch=trial["state"] in TRIAL_FINAL and trial["state"] != TrialState.FAILED,
            can_replay=self._sweep.parsed.sampler.name == "population" and trial["parent"] is not None,
        )  # fmt: skip
        return buttons.fill(sweep_id=self._sweep.pk, number=trial["number"])

    def _without(self, axis: str) -> str:
        rest = self._asked._replace(brushes=[one for one in self._asked.brushes if one.axis != axis])
        return self.sheet.url(**rest.query)


def _name(line: TrialLine) -> str:
    trial = line.trial
    words = f"Trial {trial['number']}"
    link = (
        f'<a class="name" tabindex="-1" href="{run_url(line.row.run.pk)}" data-open>{words}</a>'
        if line.row
        else f'<span class="name">{words}</span>'
    )
    return f'{link} <span class="tag">by hand</span>' if trial["by_hand"] else link


def _value(line: TrialLine, at: int) -> str:
    values = line.trial["values"]
    return f"<b>{numbers.number(values[at])}</b>" if at < len(values) else drawn.NOTHING


def _setting(line: TrialLine, path: str) -> str:
    parameters = line.trial["parameters"]
    return drawn.clipped(numbers.setting(parameters[path])) if path in parameters else drawn.NOTHING


def _progress(line: TrialLine) -> str:
    row = line.row
    if row is None:
        return drawn.NOTHING
    step = line.trial["steps"] if row.step is None else row.step
    return f'<div class="is-{line.badge.colour}">{drawn.progress(step, row.steps, row.run.name)}</div>'


def _took(line: TrialLine) -> str:
    return f'<span class="muted">{escape(numbers.duration(line.row.duration_s))}</span>' if line.row else ""


# Trials in the table of a sweep: brushed ranges, a state and an order, all of it in the address.


class Brush(NamedTuple):
    """Filter on one axis: ranges of numbers, or texts. ``axis`` is a path of the space, or an objective's."""

    axis: str
    ranges: tuple[tuple[float, float], ...] = ()
    texts: tuple[str, ...] = ()

    def admits(self, value: object) -> bool:
        if self.texts:
            return value is not None and text_of(value) in self.texts
        return is_number(value) and any(low <= value <= high for low, high in self.ranges)


class Asked(NamedTuple):
    brushes: list[Brush]
    state: str

    @property
    def query(self) -> dict[str, str | list[str]]:
        return {"brush": [text for one in self.brushes for text in _texts(one)], "state": self.state}


def asked_of(query: QueryDict) -> Asked:
    """``brush`` is ``axis|low..high`` or ``axis=text``; what reads as neither is left out: a link may be old."""
    found: dict[str, Brush] = {}
    for text in query.getlist("brush")[:MAX_BRUSHES]:
        axis, ranges, texts = _read(text[:300])
        if axis:
            before = found.get(axis, Brush(axis))
            found[axis] = Brush(axis, (*before.ranges, *ranges), (*before.texts, *texts))
    state = query.get("state", "").upper()
    return Asked(list(found.values()), state if state in set(TrialState) else "")


def numbers_of(sweep: Sweep, asked: Asked, sorts: Sequence[str]) -> list[int]:
    """Return the numbers of the trials that are asked for, in their order: by the database, unless what they have in
    their parameters decides."""
    order = _columns(sorts, sweep)
    if asked.brushes or order is None:
        points = trial_points(sweep, state=asked.state)
        found = [one for one in points if all(brush.admits(axis_value(one, brush.axis)) for brush in asked.brushes)]
        for sort in (NEWEST, *reversed(sorts)):
            found = ordered(found, sort)
        return [one.number for one in found]
    rows = TrialRow.objects.filter(sweep=sweep, **({"state": asked.state} if asked.state else {}))
    return list(rows.order_by(*order).values_list("number", flat=True))


def _columns(sorts: Sequence[str], sweep: Sweep) -> list[Any] | None:
    """Return the order as columns; None where it is one of parameters, or of several objectives."""
    if sorts in ([NEWEST], [OLDEST]):
        return [*sorts]
    if len(sorts) > 1 or sorts[0].removeprefix("-") != f"{VALUE}:0" or sweep.parsed.is_multiple:
        return None
    return [F("value").desc(nulls_last=True) if sorts[0].startswith("-") else F("value").asc(nulls_last=True), NEWEST]


def ordered(rows: Sequence[TrialPoint], sort: str) -> list[TrialPoint]:
    """Sort by number, by an objective, or by a field of the space. Trials without a value there come last, and what is
    equal stays in its order."""
    is_falling, axis = sort.startswith("-"), sort.removeprefix("-")
    if axis == OLDEST:
        return sorted(rows, key=lambda one: one.number, reverse=is_falling)
    known = [(_order(value), one) for one in rows if (value := axis_value(one, axis)) is not None]
    known.sort(key=lambda pair: pair[0], reverse=is_falling)
    there = {one.number for _, one in known}
    return [*(one for _, one in known), *(one for one in rows if one.number not in there)]


def axis_value(trial: TrialPoint, axis: str) -> object:
    """Return the trial's value on an axis of the charts; None where it has no number there."""
    name, _, place = axis.partition(":")
    if name != VALUE or not place.isdecimal():
        return trial.parameters.get(axis)
    value = trial.values[int(place)] if int(place) < len(trial.values) else None
    return value if is_number(value) else None


def _order(value: object) -> tuple[int, float, str]:
    return (0, float(value), "") if is_number(value) else (1, 0.0, text_of(value))


def _read(text: str) -> tuple[str, list[tuple[float, float]], list[str]]:
    axis, is_text, value = text.partition("=")
    if is_text:
        return axis, [], [value]
    axis, _, rest = text.rpartition("|")
    low, _, high = rest.partition("..")
    try:
        ends = float(low), float(high)
    except ValueError:
        return "", [], []
    return (axis, [ends], []) if all(map(math.isfinite, ends)) else ("", [], [])


def _texts(brush: Brush) -> list[str]:
    return [
        *(f"{brush.axis}|{low:.12g}..{high:.12g}" for low, high in brush.ranges),
        *(f"{brush.axis}={text}" for text in brush.texts),
    ]


def brush_words(brush: Brush, labels: Mapping[str, str]) -> str:
    ranges = [f"{low:.3g} to {high:.3g}" for low, high in brush.ranges]
    return f"{labels.get(brush.axis, brush.axis)}: {', '.join([*ranges, *brush.texts])}"
