"""Several runs side by side: their charts in one, what they reached, and what of their specs differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from django.http import HttpRequest, HttpResponse

from dashboard.pages.compare.rows import ORDERS, STATISTICS, Group, Metric, choose_metric, grouped, ordered, rows_of
from dashboard.pages.compare.specs import Fields, differing, spec_table
from dashboard.pages.shared.chart_runs import charts_context
from dashboard.pages.shared.frame import page, person, show
from dashboard.pages.shared.run_colours import colours_apart
from runs.access import visible_runs
from runs.models import Run
from runs.points import read

MAX_RUNS = 100
MAX_CHARS = 500  # of a parameter
BANDS = {"minmax": "min to max", "sd": "± SD", "ci": "95 % CI"}
COLOURS = ("blue", "copper", "teal", "pink", "olive", "sky", "brick", "violet", "grey", "green")
FRAGMENTS = {"list": "runs/_compare_list.html", "specs": "runs/_compare_specs.html"}


class ComparedList(TypedDict):
    """What the list beside the charts shows."""

    groups: list[Group]
    is_grouped: bool
    group_by: list[tuple[str, bool]]
    group_names: str
    bands: dict[str, str]
    band: str
    metric: Metric
    statistics: dict[str, str]
    order: str
    orders: dict[str, str]


@page()
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
) -> ComparedList:
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
    """Those of the runs that the person may see, in the order in which they were named."""
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
