"""The table of runs; everything that chooses what it shows is in the URL. Its buttons are calls of actions."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from dashboard.pages.runs import cells
from dashboard.pages.runs.address import (
    Asked,
    asked_of,
    columns_of,
    has_trials,
    problem_of,
    runs_of,
    sorts_of,
    url_of,
)
from dashboard.pages.runs.listed import MOST_AT_ONCE, WINDOW, Listed, Number, whole
from dashboard.pages.shared.frame import page, refusal, show
from dashboard.pages.shared.grid import MAX_COLUMNS, ROW, GridRow, draw_rows, heads_of, write_columns
from runs.finding.language import FilterError
from runs.presenting.listing import BadQuery, trials_among
from runs.rights.access import Permission, projects_with, visible_runs
from runs.rights.access.operations import lists

VIEWS = (
    ("All", ""),
    ("Live", "live"),
    ("Succeeded", "succeeded"),
    ("Failed", "failed"),
    ("Cancelled", "cancelled"),
    ("Archived", "archived"),
)


class View(NamedTuple):
    label: str
    url: str
    is_current: bool


@page(get=lists(Permission.RUNS_READ))
def table(request: HttpRequest) -> HttpResponse:
    asked = asked_of(request)
    if request.GET.get("fragment") == "rows":
        return _rows(request, asked)
    chosen = columns_of(asked)
    shown = cells.shown(chosen[:MAX_COLUMNS])
    notices = [f"{name} is no field: its column is left out." for name in shown.unknown]
    if len(chosen) > MAX_COLUMNS:
        notices.append(f"The first {MAX_COLUMNS} of {len(chosen):,} columns are shown.")
    problem, hidden, number, listed = None, None, Number(0, False), None
    rows: list[GridRow] = []
    sorts = sorts_of(asked)
    may_act_in = set(projects_with(request.user, Permission.RUNS_LAUNCH).values_list("pk", flat=True))
    try:
        runs = runs_of(request, asked)
        try:
            listed = Listed(runs, sorts)
        except FilterError as error:
            notices.append(f"{error.message} The newest come first.")
            sorts = sorts_of({**asked, "sort": ""})
            listed = Listed(runs, sorts)
        number = listed.number()
        rows = cells.lines(request.user, listed.window(0, WINDOW), shown, may_act_in)
        if not has_trials(asked):
            hidden = trials_among(runs_of(request, {**asked, "trials": "1"}), words=asked["filter"])
    except FilterError as error:
        problem = problem_of(error, asked["filter"])
    except BadQuery as error:
        return refusal(request, 400, str(error))
    context = {
        **asked,
        "columns_text": write_columns(chosen),
        "density": asked["density"] or next(iter(ROW)),
        "row_height": ROW[asked["density"] or next(iter(ROW))],
        "density_urls": [(one, url_of(asked, density=one)) for one in ROW],
        "filter_problem": problem,
        "notices": notices,
        "heads": heads_of(shown.columns, sorts, lambda sort: url_of(asked, sort=sort)),
        "num_columns": len(shown.columns) + 2,
        "rows": draw_rows(shown.columns, rows, 0),
        "number": number,
        "num_below": max(0, number.num - len(rows)),
        "until": listed.until.isoformat() if listed else "",
        "may_act": bool(may_act_in),
        "views": [View(label, url_of(asked, view=view), asked["view"] == view) for label, view in VIEWS],
        "without_tag": url_of(asked, tag=""),
        "without_project": url_of(asked, project=""),
        "kept": [(name, value) for name, value in asked.items() if value and name != "filter"],
        "is_filtered": any(asked[name] for name in ("view", "filter", "tag", "project")),
        "rows_url": url_of(asked, fragment="rows"),
        "hidden": hidden,
        "trials_url": url_of(asked, trials="1"),
        "no_trials_url": url_of(asked, trials="") if asked["trials"] == "1" else "",
        "csv_url": reverse("runs-csv") + url_of(asked),
    }
    return show(request, "runs/table.html", context)


def _rows(request: HttpRequest, asked: Asked) -> HttpResponse:
    """Return rows of the table alone: those of the ids ``ids``, or ``limit`` from the place ``offset`` on. The headers
    say how many runs there are, how many came after the moment ``until``, and up to which moment this is true."""
    shown = cells.shown(columns_of(asked)[:MAX_COLUMNS])
    may_act_in = set(projects_with(request.user, Permission.RUNS_LAUNCH).values_list("pk", flat=True))
    try:
        listed = Listed(runs_of(request, asked), sorts_of(asked), _moment(request.GET.get("until", "")))
    except (FilterError, BadQuery) as error:
        return refusal(request, 400, str(error))
    first = _place(request, "offset")
    if ids := request.GET.get("ids", ""):
        seen = visible_runs(request.user).filter(pk__in=ids.split(".")[:MOST_AT_ONCE])
        runs = whole(list(seen.values_list("pk", flat=True)))
    else:
        runs = listed.window(first, _place(request, "limit") or WINDOW)
    rows = cells.lines(request.user, runs, shown, may_act_in)
    answer = HttpResponse(draw_rows(shown.columns, rows, first))
    if request.GET.get("count"):
        number = listed.number()
        answer["X-Rows"], answer["X-More"] = str(number.num), "1" if number.is_more else ""
    answer["X-New"], answer["X-Until"] = str(listed.num_new), listed.until.isoformat()
    answer["Cache-Control"] = "no-store"
    return answer


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def _place(request: HttpRequest, name: str) -> int:
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0
