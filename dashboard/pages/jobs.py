"""Jobs: saved specs, their versions, and the runs that came of them."""

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

from dashboard.frontend.icons import icon
from dashboard.pages.launch.plan import plan
from dashboard.pages.shared import drawn
from dashboard.pages.shared.badges import badge
from dashboard.pages.shared.drawn import address, clipped, opener
from dashboard.pages.shared.frame import answer, page, person, refusal, show
from dashboard.pages.shared.grid import GridRow, Sort
from dashboard.pages.shared.run_rows import rows, run_url
from dashboard.pages.shared.sheet import Kind, Sheet
from runs import actions
from runs.models import Job, Run
from runs.models.indexes import first_rows
from runs.presenting.listing import LastRun, last_runs
from runs.rights.access import Permission, can, get_job, projects_with, visible_jobs, visible_runs
from runs.rights.access.operations import lists, thing
from trainyard.spec import SpecError
from trainyard.spec.document import as_yaml

LONGEST_WHAT = 200

NUM_RUNS = 10
FIELDS = ("pk", "project_id", "name", "version", "project__name", "created_at", "spec__task",
          "created_by__username", "created_by__first_name", "created_by__last_name")  # fmt: skip


class Line(NamedTuple):
    key: str
    name: str
    version: int
    trains: str
    project: str
    saved_at: datetime
    author: str
    last: LastRun | None


def _last(line: Line) -> str:
    if line.last is None:
        return '<span class="muted">never launched</span>'
    return (
        f'<a class="quiet-link row-line" tabindex="-1" href="{run_url(line.last.pk)}">'
        f'{drawn.status(badge(line.last.status))}<span class="muted">{drawn.age(line.last.created_at)}</span></a>'
    )


KINDS: dict[str, Kind[Line]] = {
    "name": Kind("Name", 240, lambda line: opener("job", line.key, line.name), sort="name", phone=""),
    "version": Kind("Version", 76, lambda line: f'<span class="muted">v{line.version}</span>', "version", True, "end"),
    "trains": Kind("Trains", 220, lambda line: clipped(line.trains)),
    "project": Kind("Project", 140, lambda line: clipped(line.project), sort="project__name"),
    "last": Kind("Last run", 190, _last, phone="wide"),
    "saved": Kind("Saved", 100, lambda line: f'<span class="muted">{drawn.age(line.saved_at)}</span>', "created_at"),
    "by": Kind("By", 120, lambda line: clipped(line.author or "–"), sort="created_by__username"),
}


@page(get=lists(Permission.JOBS_READ))
def table(request: HttpRequest) -> HttpResponse:
    sheet = Sheet(request, "Jobs", "job", KINDS, Sort("name", False))
    found = visible_jobs(request.user).newest()
    if sheet.words:
        found = found.filter(name__icontains=sheet.words)
    keys = found.order_by(*sheet.order, "-version", "pk").values_list("pk", flat=True)
    return sheet.show("jobs/table.html", keys, partial(_rows, request), {"title": "Jobs", "news": "run ping"})


@page(get=thing(Permission.JOBS_READ))
def job(request: HttpRequest, job_id: str) -> HttpResponse:
    chosen = get_job(request, job_id)
    same = visible_jobs(request.user).filter(project=chosen.project, name=chosen.name)
    versions = same.order_by("-version").select_related("created_by")
    context = {
        "job": chosen,
        "versions": versions,
        "newest": versions.first() or chosen,  # none: it was deleted a moment ago
        "what": _what(chosen.spec.get("task", {})),
        "yaml": as_yaml(chosen.spec),
        "rows": rows(first_rows(_runs(request, chosen), NUM_RUNS)),
        "may_act": can(request.user, chosen.project, Permission.JOBS_EDIT),
    }
    return show(request, "jobs/job.html", context, fragments={"runs": "jobs/_runs.html"})


@page(post=thing(Permission.RUNS_LAUNCH))
def launch(request: HttpRequest, job_id: str) -> HttpResponse:
    chosen = get_job(request, job_id)
    if overflow := plan(request.user, chosen.spec, timezone.now()).overflow:
        form = f"{reverse('launch')}?{urlencode({'from': f'job:{chosen.pk}'})}"  # where it can be confirmed
        return answer(request, f"Job {chosen.name} was not launched. {overflow}", to=form)
    try:
        run = actions.submit_run(actor=person(request), job=chosen)
    except SpecError as error:  # the cluster changed since it was saved
        return refusal(request, 422, f"Job {chosen.name} cannot be launched as it is: {error}.")
    return answer(request, f"Launched {run.name}.", to=reverse("run", args=(run.pk,)))


@page(post=thing(Permission.JOBS_EDIT))
def delete(request: HttpRequest, job_id: str) -> HttpResponse:
    chosen = get_job(request, job_id)
    actions.delete_job(actor=person(request), job=chosen)
    return answer(request, f"Deleted job {chosen.name}.", to=reverse("jobs"))


def _what(task: Mapping[str, Any]) -> str:
    """The recipe, or the script, in a word or two."""
    words = task.get("recipe") or task.get("script") or task.get("module") or shlex.join(task.get("command") or [])
    return str(words)[:LONGEST_WHAT]


def _rows(request: HttpRequest, keys: Sequence[str]) -> list[tuple[GridRow, Line]]:
    fields = {row[0]: row for row in Job.objects.filter(pk__in=keys).order_by().values_list(*FIELDS)}
    jobs = [fields[key] for key in keys if key in fields]
    runs = last_runs(request.user, {pk: (project_id, name) for pk, project_id, name, *_ in jobs})
    may_act_in = set(projects_with(request.user, Permission.RUNS_LAUNCH).values_list("pk", flat=True))
    found = []
    for pk, project_id, name, version, project, saved_at, task, username, *names in jobs:
        author = " ".join(one for one in names if one) or username or ""
        line = Line(pk, name, version, _what(task or {}), project, saved_at, author, runs.get(pk))
        found.append((GridRow(pk, name, (), actions=_launch(line) if project_id in may_act_in else ""), line))
    return found


def _launch(line: Line) -> str:
    return (
        f'<button class="btn btn-small" tabindex="-1" formaction="{address("launch-job", line.key)}"'
        f' aria-label="Launch {escape(line.name)}">{icon("launch")}Launch</button>'
    )


def _runs(request: HttpRequest, job: Job) -> QuerySet[Run]:
    versions = Job.objects.filter(project=job.project, name=job.name).values_list("pk", flat=True)
    return visible_runs(request.user).filter(job__in=list(versions))
