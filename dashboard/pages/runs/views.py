"""The table of runs; everything that chooses what it shows is in the URL. Its buttons are calls of actions."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.pages.runs import address, cells, folding
from dashboard.pages.runs.address import Asked
from dashboard.pages.runs.cells import Colouring, colouring_of
from dashboard.pages.runs.groups import Drawn, Spread, draw_groups, spread_of
from dashboard.pages.runs.saved import default_query, saved_views
from dashboard.pages.shared import grid
from dashboard.pages.shared.chart_runs import ChartRun, chart_runs, charts_context
from dashboard.pages.shared.frame import fresh_json, is_script, page, person, show
from dashboard.pages.shared.run_colours import colours_for
from runs.finding import columns as finding
from runs.finding.fields import FIXED
from runs.finding.index import Building
from runs.finding.language import FilterError
from runs.models import Run, User
from runs.presenting.listing import Trials, trials_among, without_trials
from runs.rights.access import Permission, projects_with
from runs.rights.access.operations import lists
from runs.values.status import Status

VIEWS = {"All": "", **{one.capitalize(): one for one in ("live", "succeeded", "failed", "cancelled", "archived")}}
MOST_NAMES = 5000
NEWEST = 500  # runs whose people and tags are offered
NONE = address.Number(0, False)


@dataclass
class Looked:
    shown: cells.Shown
    sorts: list[grid.Sort]
    notices: list[str]
    may_act_in: set[str]
    rows: Sequence[grid.GridRow] = ()
    grouped: Drawn | None = None
    number: address.Number = NONE
    until: str = ""
    problem: dict[str, str] | None = None
    keys: Sequence[str] = ()
    hidden: Trials | None = None
    colouring: Colouring | None = None


@page(get=lists(Permission.RUNS_READ))
def table(request: HttpRequest) -> HttpResponse:
    asked = address.asked_of(request)
    if draw := FRAGMENTS.get(request.GET.get("fragment", "")):
        return draw(request, asked)
    if not request.GET and not is_script(request) and (query := default_query(request)):
        return redirect(f"{reverse('runs')}?{query}")
    chosen, by = address.columns_of(asked), address.groups_of(asked)
    shown = cells.shown(chosen[: grid.MAX_COLUMNS], is_grouped=bool(by))
    notices = [f"{name} is no field: its column is left out." for name in shown.unknown]
    if len(chosen) > grid.MAX_COLUMNS:
        notices.append(f"The first {grid.MAX_COLUMNS} of {len(chosen):,} columns are shown.")
    places = dict(projects_with(request.user, Permission.RUNS_LAUNCH).order_by("name").values_list("pk", "name"))
    looked = Looked(shown, address.sorts_of(asked), notices, set(places))
    try:
        _look(request, asked, by, looked)
    except FilterError as error:
        looked.problem = address.problem_of(error, asked["filter"])
    context = {**_choices(asked, by), **saved_views(request, asked), **_found(asked, looked), "places": places.values()}
    if asked["charts"]:
        context |= _beside(person(request), address.whole(looked.keys))
    return show(request, "runs/table.html", context)


def _look(request: HttpRequest, asked: Asked, by: Sequence[str], looked: Looked) -> None:
    runs = every = address.runs_of(request, {**asked, "trials": "1"})
    if not address.has_trials(asked):
        runs = without_trials(every, asked["filter"].strip(), has_best=not by)
    try:
        listed = _folded(request, asked, address.Listed(runs, looked.sorts))
        found = listed.window(0, grid.WINDOW)
    except FilterError as error:
        looked.notices.append(f"{error.message} The newest come first.")
        looked.sorts = address.sorts_of({**asked, "sort": ""})
        listed = _folded(request, asked, address.Listed(runs, looked.sorts))
        found = listed.window(0, grid.WINDOW)
    looked.number, looked.until = listed.number(address.MOST_ROWS if by else address.AT_FIRST), listed.until.isoformat()
    looked.keys = [key for key, _ in found]
    shown, may_act_in = looked.shown, looked.may_act_in
    try:
        if by:
            looked.grouped = draw_groups(request.user, runs, shown, by, looked.sorts, asked, may_act_in)
    except FilterError as error:
        looked.notices.append(f"{error.message} The runs are in no groups.")
    if looked.grouped is None:
        try:
            looked.colouring = colouring_of(runs, asked["colour"]) if asked["colour"] else None
        except FilterError as error:
            looked.notices.append(f"{error.message} The rows have no colours.")
        looked.rows = _lines(request, asked, found, shown, may_act_in, looked.colouring)
    if not address.has_trials(asked):
        looked.hidden = trials_among(every, words=asked["filter"])


def _folded(request: HttpRequest, asked: Asked, listed: address.Listed) -> folding.Folded:
    opened = [] if asked["group"] or address.has_trials(asked) else address.opened_of(asked)
    return folding.Folded(listed, address.runs_of(request, {**asked, "trials": "1"}) if opened else None, opened)


def _lines(
    request: HttpRequest,
    asked: Asked,
    entries: Sequence[folding.Entry],
    shown: cells.Shown,
    may_act_in: set[str],
    colouring: Colouring | None,
) -> list[grid.GridRow]:
    if address.has_trials(asked):
        return cells.lines(request.user, address.whole([key for key, _ in entries]), shown, may_act_in, colouring)
    opened, alone = address.opened_of(asked), asked["filter"].strip()
    return folding.lines(request.user, entries, shown, may_act_in, colouring, opened, alone)


def _choices(asked: Asked, by: Sequence[str]) -> dict[str, object]:
    """Return what one may choose, and the address that each choice leads to."""
    density = asked["density"] or next(iter(grid.ROW))
    without = {name: grid.write_columns([grid.Chosen(one) for one in by if one != name]) for name in by}
    return {
        **asked,
        "density": density,
        "row_height": grid.ROW[density],
        "density_urls": [(one, address.url_of(asked, density=one)) for one in grid.ROW],
        "views": [(label, address.url_of(asked, view=view), asked["view"] == view) for label, view in VIEWS.items()],
        "without_tag": address.url_of(asked, tag=""),
        "without_project": address.url_of(asked, project=""),
        "grouped_by": [(name, address.url_of(asked, group=rest, open="")) for name, rest in without.items()],
        "kept": [(name, value) for name, value in asked.items() if value and name != "filter"],
        "is_filtered": any(asked[name] for name in ("view", "filter", "tag", "project")),
        "rows_url": address.url_of(asked, fragment="rows"),
        "names_url": address.url_of({**asked, "filter": "", "view": "", "sort": "", "columns": ""}, fragment="names"),
        "no_colour_url": address.url_of(asked, colour=""),
        "trials_url": address.url_of(asked, trials="1"),
        "no_trials_url": address.url_of(asked, trials="") if asked["trials"] == "1" else "",
        "compare_url": _compare_url(asked),
        "charts_url": address.url_of(asked, charts="" if asked["charts"] else "1"),
        "csv_url": reverse("runs-csv") + address.url_of(asked),
        "parquet_url": reverse("runs-parquet") + address.url_of(asked),
    }


def _found(asked: Asked, looked: Looked) -> dict[str, object]:
    columns, grouped, number = looked.shown.columns, looked.grouped, looked.number
    return {
        "heads": grid.heads_of(columns, looked.sorts, lambda sort: address.url_of(asked, sort=sort)),
        "num_columns": len(columns) + 2,
        "has_boxes": True,
        "noun": "run",
        "rows": grouped.markup if grouped else grid.draw_rows(columns, looked.rows, 0),
        "is_grouped": grouped is not None,
        "is_tree": grouped is not None or not address.has_trials(asked),
        "group_words": grouped.words if grouped else "",
        "num_rows": grouped.num_rows if grouped else number.num,
        "num_below": 0 if grouped else max(0, number.num - len(looked.rows)),
        "number": number,
        "until": looked.until,
        "filter_problem": looked.problem,
        "notices": looked.notices,
        "hidden": looked.hidden,
        "colouring": looked.colouring,
        "may_act": bool(looked.may_act_in),
    }


def _compare_url(asked: Asked) -> str:
    status = {"": "", "archived": ""}.get(asked["view"], f"status = {asked['view']}")
    parts = [one for one in (status, f"({asked['filter']})" if status and asked["filter"] else asked["filter"]) if one]
    query = {"filter": " and ".join(parts) or "created > -52w", "project": asked["project"], "tag": asked["tag"],
             "trials": asked["trials"]}  # fmt: skip
    return f"{reverse('compare')}?{urlencode({name: value for name, value in query.items() if value})}"


def _rows(request: HttpRequest, asked: Asked) -> HttpResponse:
    """Return rows of the table alone: those of the ids ``ids``, or ``limit`` from the place ``offset`` on. The headers
    say how many runs there are, how many came after the moment ``until``, and up to which moment this is true."""
    shown = cells.shown(address.columns_of(asked)[: grid.MAX_COLUMNS])
    may_act_in = set(projects_with(request.user, Permission.RUNS_LAUNCH).values_list("pk", flat=True))
    runs = address.runs_of(request, asked, has_best=True)
    moment = _moment(request.GET.get("until", ""))
    listed = _folded(request, asked, address.Listed(runs, address.sorts_of(asked), moment))
    first = grid.place_of(request.GET.get("offset", ""))
    if ids := request.GET.get("ids", ""):
        entries = folding.entries_of(request.user, ids.split(".")[: grid.MOST_AT_ONCE])
    else:
        entries = listed.window(first, grid.limit_of(request.GET))
    try:
        colouring = colouring_of(address.runs_of(request, asked), asked["colour"]) if asked["colour"] else None
    except FilterError:
        colouring = None  # the page says so
    rows = _lines(request, asked, entries, shown, may_act_in, colouring)
    answer = HttpResponse(grid.draw_rows(shown.columns, rows, first))
    if request.GET.get("count"):
        number = listed.number(address.MOST_ROWS)
        answer["X-Rows"], answer["X-More"] = str(number.num), "1" if number.is_more else ""
    answer["X-New"], answer["X-Until"] = str(listed.num_new), listed.until.isoformat()
    answer["Cache-Control"] = "no-store"
    return answer


def _charts(request: HttpRequest, asked: Asked) -> HttpResponse:
    """Return the runs of the charts beside the table as they are now, as JSON."""
    listed = address.Listed(address.runs_of(request, asked), address.sorts_of(asked))
    runs = listed.window(0, grid.WINDOW)
    found = chart_runs(runs, colours_for(request.user, runs))
    return fresh_json({"runs": _bare(found), "words": _words(runs)})


def _names(request: HttpRequest, asked: Asked) -> HttpResponse:
    """Return all that runs are shown, sorted and filtered by, with the values that few fields have, as JSON."""
    runs = address.runs_of(request, asked)
    names = [one._asdict() for one in finding.names(runs, limit=MOST_NAMES)]
    series = [f"{cells.SPARK}{one['name'].removeprefix('summary.').removesuffix('.last')}" for one in names
              if one["name"].startswith("summary.") and one["name"].endswith(".last")]  # fmt: skip
    own = [name for name in cells.KINDS if name not in FIXED]
    newest = list(runs.order_by("-created_at", "-pk").values_list("created_by__username", "tags")[:NEWEST])
    values = {
        "status": ["live", "ended", *(str(status) for status in Status)],
        "user": sorted({user for user, _ in newest if user}),
        "tag": sorted({tag for _, tags in newest for tag in tags})[:NEWEST],
        "project": sorted(projects_with(request.user, Permission.RUNS_READ).values_list("name", flat=True)[:NEWEST]),
    }
    table_alone = [{"name": name, "kind": "column"} for name in (*own, *series)]
    kept = {"Cache-Control": "private, max-age=60"}
    return JsonResponse({"names": [*names, *table_alone], "values": values}, headers=kept)


def _spread(request: HttpRequest, asked: Asked) -> HttpResponse:
    """Return how the values of the column ``of`` are spread, as markup for its menu; 202: ask again."""
    try:
        spread, status = spread_of(address.runs_of(request, asked), request.GET.get("of", "")), 200
    except Building as error:
        spread, status = Spread(f"The values are being read: {error.share:.0%} of the runs so far."), 202
    return show(request, "runs/_spread.html", {"spread": spread}, status=status)


FRAGMENTS = {"rows": _rows, "names": _names, "charts": _charts, "spread": _spread}


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None


# Charts beside the table: of the first runs that it shows, in the colours that their rows have.


def _beside(user: User, shown: Sequence[Run]) -> dict[str, object]:
    """Return what the pane needs, beside what the table does."""
    found = charts_context(user, shown, colours=colours_for(user, shown))["charts"]
    return {"charts": {**found, "runs": _bare(found["runs"])}, "charts_words": _words(shown)}


def _words(shown: Sequence[Run]) -> str:
    num = len(shown)
    return f"of the first {num} runs" if num == grid.WINDOW else f"of {num} run{'' if num == 1 else 's'}"


def _bare(found: list[ChartRun]) -> list[ChartRun]:
    """Nothing here groups them by their specs."""
    for one in found:
        one["fields"] = {}
    return found
