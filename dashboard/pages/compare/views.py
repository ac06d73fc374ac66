"""Several runs side by side: their charts in one, what they reached, and what of their specs differs."""

from collections.abc import Sequence
from typing import NamedTuple

from django.http import HttpRequest, HttpResponse

from dashboard.pages.compare import cells
from dashboard.pages.compare.plots import Compared, columns, importance_of
from dashboard.pages.compare.rows import STATISTICS, choose_metric, listed
from dashboard.pages.compare.sides import MOST, SIDES
from dashboard.pages.compare.specs import Fields, differing, spec_table, usual_group
from dashboard.pages.shared.bands import bands_context
from dashboard.pages.shared.chart_runs import MANY, charts_context, fields_of
from dashboard.pages.shared.frame import fresh_json, page, person, show
from dashboard.pages.shared.grid import read_sorts
from dashboard.pages.shared.run_colours import colours_apart, colours_for
from dashboard.pages.sweeps.columns import labels_of
from runs.finding.language import MAX_LENGTH, FilterError
from runs.models import Run
from runs.presenting.listing import find_runs
from runs.records.points import read
from runs.rights.access import Permission, visible_runs
from runs.rights.access.operations import lists

MAX_RUNS = 1_000
MAX_CHARS = 500  # of a parameter
OF_SWEEP = "sweep:"  # how the tag begins that all runs of a sweep have
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


class Asked(NamedTuple):
    """Runs that the address asks for: named ones, and those of a filter, a project or a tag without some."""

    named: list[str]
    fitting: str
    project: str
    tag: str
    has_trials: bool
    without: list[str]

    @property
    def is_filter(self) -> bool:
        return bool(self.fitting or self.project or self.tag)


@page(get=lists(Permission.RUNS_READ))
def compare(request: HttpRequest) -> HttpResponse:
    if (side := request.GET.get("fragment", "")) in SIDES:
        return _side(request, side)
    asked = _asked(request)
    runs, warning = _find(request, asked)
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
    base = _text(request, "base")
    context = {
        "charts": charts,
        **bands,
        "usual_group": usual,
        "is_many": is_many,
        "asked": asked,
        "kept": [(name, one) for name in KEPT for one in request.GET.getlist(name)],
        "num_runs": len(runs),
        "warning": warning,
        "sides": SIDE_BY_SIDE,
        "colour_names": list(enumerate(COLOURS, start=1)),
        **_list(request, runs, colours, fields, differ, usual, base),
        "specs": spec_table(runs, fields, differ, base=base, is_whole=_text(request, "all") == "1"),
    }
    return show(request, "runs/compare.html", context, fragments=FRAGMENTS)


def _side(request: HttpRequest, side: str) -> HttpResponse:
    """Draw one part of the first named runs side by side."""
    runs = _find(request, _asked(request))[0][:MOST]
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
    metric = choose_metric(read.series_names(ids), _text(request, "metric"), _text(request, "statistic"))
    group, sorts = _text(request, "group") or usual, read_sorts(_text(request, "sort"))
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
        "band": _text(request, "band"),
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
    runs, _ = _find(request, _asked(request))
    fields: dict[str, Fields] = {run.pk: fields_of(run.spec) for run in runs}
    ids = list(fields)
    metric = choose_metric(read.series_names(ids), _text(request, "metric"), _text(request, "statistic"))
    return Compared(runs, fields, differing(list(fields.values())), metric, metric.of_runs(ids))


def _text(request: HttpRequest, name: str) -> str:
    return request.GET.get(name, "").strip()[:MAX_CHARS]


def _asked(request: HttpRequest) -> Asked:
    named, without = (
        list(dict.fromkeys(one[:MAX_CHARS] for one in request.GET.getlist(name) if one)) for name in ("run", "without")
    )
    tag = _text(request, "tag")
    fitting = request.GET.get("filter", "")[: MAX_LENGTH + 1]
    has_trials = _text(request, "trials") == "1" or tag.startswith(OF_SWEEP)
    return Asked(named, fitting, _text(request, "project"), tag, has_trials, without)


def _find(request: HttpRequest, asked: Asked) -> tuple[list[Run], str]:
    """Return those of the named runs that the person may see, as they were named, and behind them those that fit, the
    newest first; and the sentence about runs that are not shown: how many, and never which."""
    sentences = []
    ids = asked.named[:MAX_RUNS]
    visible = visible_runs(request.user).in_bulk(ids)
    runs = [visible[run_id] for run_id in ids if run_id in visible]
    if len(asked.named) > MAX_RUNS:
        sentences.append(f"This address names {len(asked.named)} runs; the first {MAX_RUNS} are compared.")
    if num_missing := len(ids) - len(runs):
        words = "One run of this address is" if num_missing == 1 else f"{num_missing} runs of this address are"
        sentences.append(f"{words} not shown: deleted, or not yours to see.")
    if asked.is_filter:
        try:
            fitting = _fitting(request, asked, MAX_RUNS + 1 - len(runs))
        except FilterError as error:
            fitting = []
            place = f" It is at character {error.position + 1}." if asked.fitting else ""
            sentences.append(f"This filter cannot be read. {error.message}{place}")
        if len(runs) + len(fitting) > MAX_RUNS:
            sentences.append(f"More than {MAX_RUNS:,} runs fit; the newest {MAX_RUNS:,} are compared.")
        elif not fitting and not sentences:
            sentences.append("No run that you may see fits this filter.")
        runs = [*runs, *fitting][:MAX_RUNS]
    return runs, " ".join(sentences)


def _fitting(request: HttpRequest, asked: Asked, at_most: int) -> list[Run]:
    found = find_runs(
        request.user,
        project=asked.project,
        tags=[asked.tag] if asked.tag else (),
        fitting=asked.fitting,
        has_trials=asked.has_trials,
    )
    return list(found.exclude(pk__in={*asked.named, *asked.without}).order_by("-created_at", "-pk")[:at_most])
