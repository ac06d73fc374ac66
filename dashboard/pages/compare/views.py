"""Several runs side by side: their charts in one, what they reached, and what of their specs differs."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple, TypedDict

from django.http import HttpRequest, HttpResponse

from dashboard.pages.compare import cells
from dashboard.pages.compare.baseline import goal_of
from dashboard.pages.compare.rows import STATISTICS, Metric, Number, choose_metric, figure, listed, number_of
from dashboard.pages.compare.sides import MOST, SIDES
from dashboard.pages.compare.specs import SEED, Fields, differing, spec_table, usual_group
from dashboard.pages.shared.chart_runs import MANY, bands_context, charts_context, fields_of
from dashboard.pages.shared.frame import fresh_json, page, person, show
from dashboard.pages.shared.grid import read_sorts
from dashboard.pages.shared.run_colours import colours_apart, colours_for
from dashboard.pages.sweeps.columns import FieldColumn, field_column, labels_of
from runs.api.sweeping.figures import KeptFigures, figures_kept
from runs.models import Run
from runs.presenting.listing import MAX_CHARS, asked_of, compared_runs, text_of
from runs.records.points import read
from runs.rights.access import Permission, can
from runs.rights.access.operations import lists
from runs.sweeps.analysis.best import COMPLETE, SpaceField, TrialPoint
from runs.sweeps.analysis.importance import importance

EACH = "*"  # in the place of a group: a line for each run, however many there are
KEPT = ("run", "without", "project", "tag", "trials", "base", "metric", "statistic", "group")  # by another filter
BANDS = {"minmax": "min to max", "sd": "± SD", "ci": "95 % CI"}
COLOURS = ("blue", "copper", "teal", "pink", "olive", "sky", "brick", "violet", "grey", "green")
SIDE_BY_SIDE = (
    ("code", "Code", "what differs in the files that they ran"),
    ("environment", "Environment", "packages that differ"),
    ("media", "Media", "the same one, at the same step"),
    ("logs", "Logs", "how each ended"),
)
FRAGMENTS = {"list": "runs/_compare_list.html", "specs": "runs/_compare_specs.html"}


@page(get=lists(Permission.RUNS_READ))
def compare(request: HttpRequest) -> HttpResponse:
    if (side := request.GET.get("fragment", "")) in SIDES:
        return _side(request, side)
    asked = asked_of(request.GET)
    runs, warning = compared_runs(request.user, asked)
    bands = bands_context(request, runs)
    if side == "bands":
        return show(request, "runs/_bands.html", bands)
    is_many = len(runs) > MANY
    # Who looks at very many looks at groups, which have colours of their own.
    colours = (colours_for if is_many else colours_apart)(request.user, runs)
    charts = charts_context(person(request), runs, colours=colours)["charts"]
    fields: dict[str, Fields] = {one["id"]: one["fields"] for one in charts["runs"]}
    differ = differing(list(fields.values()))
    for one in charts["runs"]:  # nobody groups by what is the same everywhere
        one["fields"] = {path: text for path, text in one["fields"].items() if path in differ}
    usual = usual_group(list(fields.values()), differ) if is_many else ""
    base, group = text_of(request.GET, "base"), text_of(request.GET, "group") or usual
    metric, sorts = _metric(request, [run.pk for run in runs]), read_sorts(text_of(request.GET, "sort"))
    by = [path for path in group.split(",") if path in differ]
    found = listed(runs, metric, colours, fields, differ, by, sorts, base)
    context = {
        "charts": charts,
        **bands,
        "usual_group": usual,
        "is_many": is_many,
        "asked": asked,
        "kept": [(name, one) for name in KEPT for one in request.GET.getlist(name)],
        "num_runs": len(runs),
        "may_share": bool(runs) and can(request.user, runs[0].project, Permission.RUNS_SHARE),
        "warning": warning,
        "sides": SIDE_BY_SIDE,
        "colour_names": list(enumerate(COLOURS, start=1)),
        "list": found,
        "table": cells.table(found, metric, fields, differ, sorts),
        "is_grouped": bool(by),
        "is_each": group == EACH,
        "group_by": [(path, path in by) for path in differ],
        "group_names": ", ".join(path.rpartition(".")[2] for path in by),
        "bands": BANDS,
        "band": text_of(request.GET, "band"),
        "metric": metric,
        "statistics": STATISTICS,
        "specs": spec_table(runs, fields, differ, base=base, is_whole=text_of(request.GET, "all") == "1"),
    }
    return show(request, "runs/compare.html", context, fragments=FRAGMENTS)


def _side(request: HttpRequest, side: str) -> HttpResponse:
    runs = compared_runs(request.user, asked_of(request.GET))[0][:MOST]
    found = SIDES[side](runs, request.GET.dict()) if len(runs) > 1 else {"too_few": True}
    return show(request, "runs/_compare_side.html", {"side": side, "runs": runs, **found})


def _metric(request: HttpRequest, ids: Sequence[str]) -> Metric:
    names = read.series_names(ids)
    return choose_metric(names, text_of(request.GET, "metric"), text_of(request.GET, "statistic"))


# Plots: each run is to them what a trial is to the plots of a sweep, so that the same scripts draw both.

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


@page(get=lists(Permission.RUNS_READ))
def plots(request: HttpRequest) -> HttpResponse:
    """The columns that the plots over runs draw; ``axis`` names what further ones are of."""
    return fresh_json(columns(_compared(request), [one[:MAX_CHARS] for one in request.GET.getlist("axis")[:2]]))


@page(get=lists(Permission.RUNS_READ))
def matters(request: HttpRequest) -> HttpResponse:
    """Return how much each field matters for the metric. Where ``isCurrent`` is false, it is being computed."""
    found, is_current = importance_of(_compared(request))
    if found is None:
        return fresh_json({"isCurrent": False}, status=202)
    labels = labels_of([one["path"] for one in found["fields"]])
    fields = [{**one, "label": labels[one["path"]]} for one in found["fields"]]
    return fresh_json({**found, "fields": fields, "isCurrent": is_current})


def _compared(request: HttpRequest) -> Compared:
    runs, _ = compared_runs(request.user, asked_of(request.GET))
    fields: dict[str, Fields] = {run.pk: fields_of(run.spec) for run in runs}
    metric = _metric(request, list(fields))
    return Compared(runs, fields, differing(list(fields.values())), metric, metric.of_runs(list(fields)))
