"""Pages of reports: the list, one to read with its versions and comments, and the form that writes it."""

import re

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.pages.reports.blocks import MAX_RUNS
from dashboard.pages.reports.render import Shown, render_report
from dashboard.pages.shared.frame import answer, page, person, problems_of, show
from runs import actions
from runs.actions.runs import deleting
from runs.models import Project, Report, User
from runs.models.reports import MAX_BODY
from runs.rights import access
from runs.rights.access import Permission
from runs.rights.access.operations import SIGNED_IN, lists, thing

WRITES = thing(Permission.RUNS_ANNOTATE)
MOST = 500  # in the list
NUMBER = re.compile(r"[0-9]{1,6}")
ABOUT = "```chart\nmetrics: train/loss, val/loss\nruns: {ids}\n```\n\n```compare\nruns: {ids}\n```\n"


@page(get=lists(Permission.RUNS_READ))
def table(request: HttpRequest) -> HttpResponse:
    is_archived = request.GET.get("archived") == "1"
    found = access.visible_reports(request.user).filter(is_archived=is_archived)
    may_write = access.projects_with(request.user, Permission.RUNS_ANNOTATE).exists()
    reports = found.order_by("project__name", "-changed_at", "pk")[:MOST]
    return show(request, "reports/table.html", {"reports": reports, "may_write": may_write, "is_archived": is_archived})


@page(get=thing(Permission.RUNS_READ))
def report(request: HttpRequest, report_id: str) -> HttpResponse:
    chosen, user = access.get_report(request, report_id), person(request)
    versions = chosen.versions.select_related("author").order_by("-number")
    number = request.GET.get("version", "")
    version = versions.filter(number=number if NUMBER.fullmatch(number) else chosen.version).first()
    if version is None:
        raise access.NotFound(f"This report has no version {number}.")
    context = {
        "report": chosen,
        "version": version,
        "versions": versions.defer("body", "pinned"),
        "drawn": render_report(chosen, version, user),
        "comments": chosen.comments.select_related("author").order_by("pk"),
        "may_write": access.can(user, chosen.project, Permission.RUNS_ANNOTATE),
        "may_share": access.can(user, chosen.project, Permission.RUNS_SHARE),
        "may_delete": access.can(user, chosen.project, deleting(user, chosen)),
    }
    return show(request, "reports/report.html", context)


@page(get=SIGNED_IN, post=WRITES)
def new(request: HttpRequest) -> HttpResponse:
    """The form of a new report, about the runs that the address names."""
    if request.method == "POST":
        return _form(request, access.get_project(request, request.POST.get("project", "")), {})
    named = request.GET.getlist("run")[:MAX_RUNS]
    seen = access.visible_runs(request.user).in_bulk(named)
    body = ABOUT.format(ids=", ".join(run_id for run_id in dict.fromkeys(named) if run_id in seen)) if seen else ""
    projects = access.projects_with(request.user, Permission.RUNS_ANNOTATE)
    of_runs = projects.filter(pk__in={run.project_id for run in seen.values()}).first()
    return _form(request, of_runs or projects.order_by("name").first(), {"body": body})


@page(get=WRITES, post=WRITES)
def edit(request: HttpRequest, report_id: str) -> HttpResponse:
    chosen = access.get_report(request, report_id)
    newest = chosen.versions.values("title", "body", "pinned").get(number=chosen.version)
    return _form(request, chosen.project, {**newest, "version": chosen.version}, chosen)


@page(post=WRITES)
def preview(request: HttpRequest) -> HttpResponse:
    project = access.get_project(request, request.POST.get("project", ""))
    return HttpResponse(Shown(request.user, project).draw(request.POST.get("body", "")[:MAX_BODY]))


@page(post=WRITES)
def do(request: HttpRequest, report_id: str, verb: str) -> HttpResponse:
    chosen, user = access.get_report(request, report_id), person(request)
    home = reverse("report", args=(chosen.pk,))
    if verb == "delete":
        actions.delete_report(actor=user, report=chosen)
        return answer(request, f"Deleted report {chosen.title}.", to=reverse("reports"))
    if verb == "comment":
        actions.comment_report(actor=user, report=chosen, text=request.POST.get("text", ""))
        return redirect(f"{home}#comments")
    if verb not in ("archive", "unarchive"):
        raise access.NotFound(f"Reports have no verb {verb}.")
    actions.archive_report(actor=user, report=chosen, is_archived=verb == "archive")
    return answer(request, f"{'Archived' if verb == 'archive' else 'Brought back'} report {chosen.title}.", to=home)


def _form(
    request: HttpRequest, project: Project | None, values: dict[str, object], chosen: Report | None = None
) -> HttpResponse:
    """Save what was sent. Where that cannot be, the form comes back with it, and with what came first."""
    problems, theirs, body = {}, None, str(values.get("body", ""))
    if request.method == "POST" and project is not None:
        values = {name: request.POST.get(name, "") for name in ("title", "body", "version", "pinned")}
        body = str(values["body"])[: MAX_BODY + 1]
        try:
            return redirect("report", _save(person(request), project, chosen, request.POST.dict()).pk)
        except ValidationError as error:
            problems = problems_of(error)
        except actions.Refused:
            assert chosen is not None
            theirs = chosen.versions.select_related("author").get(number=chosen.version)
            values["version"] = theirs.number
    context = {
        "report": chosen,
        "project": project,
        "projects": access.projects_with(request.user, Permission.RUNS_ANNOTATE).order_by("name"),
        "values": values,
        "problems": problems,
        "theirs": theirs,
        "drawn": Shown(request.user, project).draw(body) if project else "",
    }
    return show(request, "reports/edit.html", context, status=409 if theirs else 422 if problems else 200)


def _save(user: User, project: Project, chosen: Report | None, form: dict[str, str]) -> Report:
    title, body, shown = form.get("title", ""), form.get("body", ""), Shown(user, project)
    if form.get("pinned"):
        shown.draw(body[:MAX_BODY])
    pinned = shown.found if form.get("pinned") else None
    if chosen is None:
        return actions.create_report(actor=user, project=project, title=title, body=body, pinned=pinned)
    version = int(form["version"]) if NUMBER.fullmatch(form.get("version", "")) else 0
    return actions.change_report(actor=user, report=chosen, title=title, body=body, version=version, pinned=pinned)
