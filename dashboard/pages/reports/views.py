"""Pages of reports: the list, one to read with its versions and comments, and the form that writes it."""

import re
from collections.abc import Mapping, Sequence
from functools import partial

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.pages.reports.blocks import MAX_RUNS
from dashboard.pages.reports.render import Shown, draw, pinned_now, render_report
from dashboard.pages.shared import drawn
from dashboard.pages.shared.frame import answer, page, person, problems_of, show
from dashboard.pages.shared.grid import GridRow, Sort
from dashboard.pages.shared.sheet import Kind, Sheet
from runs import actions
from runs.actions.reports import MAX_BODY
from runs.models import Project, Report, ReportVersion
from runs.rights.access import (
    NotFound,
    Permission,
    Someone,
    can,
    get_project,
    get_report,
    projects_with,
    visible_reports,
    visible_runs,
)
from runs.rights.access.operations import SIGNED_IN, lists, thing

WRITES = thing(Permission.RUNS_ANNOTATE)
FIELDS = ("project", "title", "body", "version", "pinned")
KINDS: dict[str, Kind[Report]] = {
    "name": Kind("Report", 260, lambda one: drawn.opener("report", one.pk, one.title), "title", phone=""),
    "project": Kind("Project", 140, lambda one: drawn.clipped(one.project.name), "project__name", phone="wide"),
    "version": Kind("Version", 80, lambda one: f"v{one.version}", is_number=True),
    "by": Kind("By", 140, lambda one: drawn.clipped(str(one.created_by or "–"))),
    "changed": Kind("Changed", 120, lambda one: drawn.age(one.changed_at), "changed_at", phone="end"),
}


@page(get=lists(Permission.RUNS_READ))
def table(request: HttpRequest) -> HttpResponse:
    is_archived = request.GET.get("archived") == "1"
    kept = {"archived": "1"} if is_archived else None
    sheet = Sheet(request, "Reports", "report", KINDS, Sort("changed", True), kept=kept)
    found = visible_reports(request.user).filter(is_archived=is_archived, title__icontains=sheet.words)
    keys = found.order_by(*sheet.order, "pk").values_list("pk", flat=True)
    may_add = projects_with(request.user, Permission.RUNS_ANNOTATE).exists()
    context = {"title": "Reports", "may_add": may_add, "is_archived": is_archived}
    return sheet.show("reports/table.html", keys, partial(_rows, request.user), context)


def _rows(user: Someone, keys: Sequence[str]) -> list[tuple[GridRow, Report]]:
    known = visible_reports(user).in_bulk(keys)
    return [(GridRow(key, known[key].title, ()), known[key]) for key in keys if key in known]


@page(get=thing(Permission.RUNS_READ))
def report(request: HttpRequest, report_id: str) -> HttpResponse:
    chosen, user = get_report(request, report_id), person(request)
    versions = chosen.versions.select_related("author").order_by("-number")
    number = request.GET.get("version", "")
    version = versions.filter(number=number if number.isdecimal() and len(number) < 7 else chosen.version).first()
    if version is None:
        raise NotFound(f"Report {chosen.title} has no version {number}.")
    context = {
        "report": chosen,
        "version": version,
        "versions": versions.defer("body", "pinned"),
        "drawn": render_report(chosen, version, user),
        "comments": chosen.comments.select_related("author").order_by("pk"),
        "may_write": can(user, chosen.project, Permission.RUNS_ANNOTATE),
        "may_delete": can(user, chosen.project, actions.deleting_report(user, chosen)),
    }
    return show(request, "reports/report.html", context)


@page(get=SIGNED_IN, post=WRITES)
def new(request: HttpRequest) -> HttpResponse:
    """The form of a new report, about the runs that the address names."""
    if request.method == "POST":
        return _saved(request, get_project(request, request.POST.get("project", "")), None)
    named = request.GET.getlist("run")[:MAX_RUNS]
    seen = visible_runs(request.user).in_bulk(named)
    runs = [seen[run_id] for run_id in dict.fromkeys(named) if run_id in seen]
    ids = ", ".join(run.pk for run in runs)
    body = (
        f"```chart\nmetrics: train/loss, val/loss\nruns: {ids}\n```\n\n```compare\nruns: {ids}\n```\n" if runs else ""
    )
    projects = projects_with(request.user, Permission.RUNS_ANNOTATE)
    project = projects.filter(pk__in=[run.project_id for run in runs]).first() or projects.order_by("name").first()
    return _form(request, {"body": body, "project": project.name if project else ""}, project, None)


@page(get=WRITES, post=WRITES)
def edit(request: HttpRequest, report_id: str) -> HttpResponse:
    chosen = get_report(request, report_id)
    if request.method == "POST":
        return _saved(request, chosen.project, chosen)
    newest = chosen.versions.get(number=chosen.version)
    values = {"title": newest.title, "body": newest.body, "version": str(newest.number)}
    return _form(request, {**values, "pinned": "1" if newest.pinned is not None else ""}, chosen.project, chosen)


@page(post=WRITES)
def preview(request: HttpRequest) -> HttpResponse:
    project = get_project(request, request.POST.get("project", ""))
    body = request.POST.get("body", "")[:MAX_BODY]
    return HttpResponse(draw(body, Shown(request.user, project)), headers={"Cache-Control": "no-store"})


@page(post=WRITES)
def do(request: HttpRequest, report_id: str, verb: str) -> HttpResponse:
    chosen, user = get_report(request, report_id), person(request)
    home = reverse("report", args=(chosen.pk,))
    if verb == "delete":
        actions.delete_report(actor=user, report=chosen)
        return answer(request, f"Deleted report {chosen.title}.", to=reverse("reports"))
    if verb == "comment":
        actions.comment_report(actor=user, report=chosen, text=request.POST.get("text", ""))
        return redirect(f"{home}#comments")
    if verb not in ("archive", "unarchive"):
        raise NotFound(f"Reports have no verb {verb!r}.")
    actions.archive_report(actor=user, report=chosen, is_archived=verb == "archive")
    return answer(request, f"{'Archived' if verb == 'archive' else 'Brought back'} report {chosen.title}.", to=home)


def _saved(request: HttpRequest, project: Project, chosen: Report | None) -> HttpResponse:
    """Save what the form has. Where that cannot be, the form comes back with it, and beside it what came first."""
    values, user = {name: request.POST.get(name, "") for name in FIELDS}, person(request)
    try:
        what = {
            "title": values["title"],
            "body": values["body"],
            "pinned": pinned_now(values["body"], user, project) if values["pinned"] else None,
        }
        if chosen is None:
            return redirect("report", actions.create_report(actor=user, project=project, **what).pk)
        number = int(values["version"]) if re.fullmatch(r"[0-9]{1,6}", values["version"]) else 0
        actions.change_report(actor=user, report=chosen, version=number, **what)
    except ValidationError as error:
        return _form(request, values, project, chosen, problems_of(error))
    except actions.Refused:
        assert chosen is not None
        theirs = chosen.versions.select_related("author").get(number=chosen.version)
        return _form(request, {**values, "version": str(theirs.number)}, project, chosen, theirs=theirs)
    return redirect("report", chosen.pk)


def _form(
    request: HttpRequest,
    values: Mapping[str, str],
    project: Project | None,
    chosen: Report | None,
    problems: Mapping[str, str] | None = None,
    theirs: ReportVersion | None = None,
) -> HttpResponse:
    context = {
        "report": chosen,
        "project": project,
        "projects": [] if chosen else projects_with(request.user, Permission.RUNS_ANNOTATE).order_by("name"),
        "values": values,
        "problems": problems or {},
        "theirs": theirs,
        "drawn": draw(values.get("body", "")[:MAX_BODY], Shown(request.user, project)) if project else "",
    }
    return show(request, "reports/edit.html", context, status=409 if theirs else 422 if problems else 200)
