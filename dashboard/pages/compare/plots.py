"""Plots over runs: each run is to them what a trial is to the plots of a sweep, so that the same scripts draw both."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple, TypedDict

from dashboard.pages.compare.baseline import goal_of
from dashboard.pages.compare.rows import Metric, Number, figure, number_of
from dashboard.pages.compare.specs import SEED, Fields
from dashboard.pages.sweeps.columns import FieldColumn, field_column, labels_of
from runs.api.sweeping.figures import KeptFigures, figures_kept
from runs.models import Run
from runs.sweeps.analysis.best import COMPLETE, SpaceField
from runs.sweeps.analysis.importance import importance
from runs.sweeps.reading import TrialPoint

MAX_AXES = 12  # of the parallel coordinates
MAX_FIELDS = 200
MAX_CHOICES = 20  # texts on an axis; a field with more is no axis
FEW_NUMBERS = 5  # up to so many different ones are choices, too
LOG_FROM = 20  # an axis is logarithmic where its values reach over so many times the least


class RunColumn(FieldColumn):
    """``isAxis``: of the parallel coordinates."""

    isAxis: bool


class RunColumns(TypedDict):
    """The runs by columns, as ``Sweeps.Columns`` of static/js/sweeps/types.d.ts has trials."""

    total: int
    number: list[int]
    state: list[str]
    run: list[str]
    names: list[str]
    fields: list[RunColumn]
    others: list[str]  # paths of fields that are no axes here, and may be asked for
    objectives: list[dict[str, Any]]
    metrics: list[str]


class Compared(NamedTuple):
    """Runs with what plots over them are of."""

    runs: list[Run]
    fields: dict[str, Fields]
    differ: list[str]
    metric: Metric
    values: dict[str, Number]


def columns(compared: Compared, wanted: Sequence[str]) -> RunColumns:
    """Return the columns of the first fields that differ, and of the ``wanted`` ones: paths, or names of metrics."""
    runs, fields, differ, metric, values = compared
    paths = [path for path in differ if path.rpartition(".")[2] != SEED]
    found = {path: one for path in [*paths, *(set(differ) - set(paths))] if (one := field_of(path, runs, fields))}
    axes = list(found)[:MAX_AXES]
    labels = labels_of(list(found))
    chosen = dict.fromkeys([*axes, *(path for path in wanted if path in found)])
    drawn: list[RunColumn] = []
    for path in chosen:
        own = [_value(found[path], fields[run.pk]) for run in runs]
        drawn.append({**field_column(found[path], labels[path], own), "isAxis": path in axes})
    for name in wanted:
        if name in metric.names and name not in found:
            drawn.append(_figure(name, metric._replace(name=name).of_runs([run.pk for run in runs]), runs))
    return {
        "total": len(runs),
        "number": list(range(len(runs))),
        "state": ["complete"] * len(runs),
        "run": [run.pk for run in runs],
        "names": [run.name for run in runs],
        "fields": drawn,
        "others": list(found)[:MAX_FIELDS],
        "objectives": [
            {
                "metric": metric.name,
                "direction": "maximize" if goal_of(metric.name, [run.pk for run in runs]) else "minimize",
                "values": [number_of(values[run.pk]) for run in runs],
            }
        ],
        "metrics": metric.names,
    }


def field_of(path: str, runs: Sequence[Run], fields: Mapping[str, Fields]) -> SpaceField | None:
    """Return the field as an axis: a range where every value is a number and they are several, else its texts; None
    where these are too many to tell apart."""
    texts = {text for run in runs if (text := fields[run.pk].get(path)) is not None}
    numbers = {text: number for text in texts if (number := figure(text)) is not None}
    if len(numbers) == len(texts) and texts:
        if len(texts) <= FEW_NUMBERS:
            return SpaceField(path, choices=tuple(sorted(texts, key=lambda text: numbers[text])))
        low, high = min(numbers.values()), max(numbers.values())
        return SpaceField(path, low, high, is_log=low > 0 and high >= LOG_FROM * low)
    return SpaceField(path, choices=tuple(sorted(texts))) if 0 < len(texts) <= MAX_CHOICES else None


def importance_of(compared: Compared) -> KeptFigures:
    """Return how much each field that differs matters for the metric, over the runs that have a number of it."""
    runs, fields, differ, metric, values = compared
    space = [one for path in differ[:MAX_FIELDS] if (one := field_of(path, runs, fields))]
    points = [
        TrialPoint(place, COMPLETE, number, (), _parameters(space, fields[run.pk]))
        for place, run in enumerate(runs)
        if (number := number_of(values[run.pk])) is not None
    ]
    # Kept for whoever sees the same runs: another set of runs must never have the same key.
    known = repr((metric.name, metric.statistic, [(run.pk, values[run.pk]) for run in runs])).encode()
    return figures_kept(f"runs {sha256(known).hexdigest()}", {}, lambda: lambda: importance(points, space, noun="run"))


def _figure(name: str, values: Mapping[str, Number], runs: Sequence[Run]) -> RunColumn:
    numbers = [number_of(values[run.pk]) for run in runs]
    known = [one for one in numbers if one is not None]
    axis = SpaceField(name, min(known, default=0.0), max(known, default=1.0))
    return {**field_column(axis, name, list(numbers)), "isAxis": False}


def _parameters(space: Sequence[SpaceField], own: Fields) -> dict[str, float | str]:
    return {one.path: value for one in space if (value := _value(one, own)) is not None}


def _value(field: SpaceField, own: Fields) -> float | str | None:
    text = own.get(field.path)
    return text if text is None or field.is_choice else figure(text)
