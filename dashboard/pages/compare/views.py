"""Several runs side by side: their charts in one, what they reached, and what of their specs differs."""

from collections.abc import Sequence

from django.http import HttpRequest, HttpResponse

from dashboard.pages.compare import cells
from dashboard.pages.compare.plots import Compared, columns, importance_of
from dashboard.pages.compare.rows import STATISTICS, choose_metric, listed
from dashboard.pages.compare.sides import MOST, SIDES
from dashboard.pages.compare.specs import Fields, differing, spec_table, usual_group
from dashboard.pages.shared.chart_runs import MANY, bands_context, charts_context, fields_of
from dashboard.pages.shared.frame import fresh_json, page, person, show
from dashboard.pages.shared.grid import read_sorts
from dashboard.pages.shared.run_colours import colours_apart, colours_for
from dashboard.pages.sweeps.columns import labels_of
from runs.models import Run
from runs.presenting.comparing import MAX_CHARS, asked_of, compared_runs, text_of
from runs.records.points import read
from runs.rights.access import Permission, can
from runs.rights.access.operations import lists

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
    base = text_of(request.GET, "base")
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
        **_list(request, runs, colours, fields, differ, usual, base),
        "specs": spec_table(runs, fields, differ, base=base, is_whole=text_of(request.GET, "all") == "1"),
    }
    return show(request, "runs/compare.html", context, fragments=FRAGMENTS)


def _side(request: HttpRequest, side: str) -> HttpResponse:
    """Draw one part of the first named runs side by side."""
    runs = compared_runs(request.user, asked_of(request.GET))[0][:MOST]
    found = SIDES[side](runs, request.GET.dict()) if len(runs) > 1 else {"too_few": True}
    return show(request, "runs/_compare_side.html", {"side": side, "runs": runs, **found})


def _list(
    request: HttpRequest,
    runs: Sequence[Run],
    colours: dict[str, int],
    fields: dict[str, Fields],
    differ: list[str],
    usual: str,
    base: str,
) -> dict[str, object]:
    ids = [run.pk for run in runs]
    metric = choose_metric(read.series_names(ids), text_of(request.GET, "metric"), text_of(request.GET, "statistic"))
    group, sorts = text_of(request.GET, "group") or usual, read_sorts(text_of(request.GET, "sort"))
    by = [path for path in group.split(",") if path in differ]
    found = listed(runs, metric, colours, fields, differ, by, sorts, base)
    return {
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
    }


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
    labels = labels_of([one.path for one in found.fields])
    fields = [{**one._asdict(), "label": labels[one.path]} for one in found.fields]
    return fresh_json({**found._asdict(), "fields": fields, "isCurrent": is_current})


def _compared(request: HttpRequest) -> Compared:
    runs, _ = compared_runs(request.user, asked_of(request.GET))
    fields: dict[str, Fields] = {run.pk: fields_of(run.spec) for run in runs}
    ids = list(fields)
    metric = choose_metric(read.series_names(ids), text_of(request.GET, "metric"), text_of(request.GET, "statistic"))
    return Compared(runs, fields, differing(list(fields.values())), metric, metric.of_runs(ids))
