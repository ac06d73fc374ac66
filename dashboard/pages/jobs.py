"""Jobs: saved specs, their versions, and the runs that came of them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import yaml
from django.conf import settings
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from dashboard.pages.launch.plan import plan
from dashboard.pages.shared.badges import badge
from dashboard.pages.shared.frame import answer, page, person, refusal, show
from dashboard.pages.shared.numbers import age_element
from dashboard.pages.shared.run_rows import rows, run_url
from dashboard.pages.shared.stencil import stencil
from runs import actions
from runs.models import Job, Run
from runs.models.indexes import first_rows
from runs.presenting.listing import last_runs
from runs.rights.access import Permission, can, get_job, projects_with, visible_jobs, visible_runs
from runs.rights.access.operations import lists, thing
from trainyard.spec import SpecError

LONGEST_WHAT = 200

LIMIT = 200
NUM_RUNS = 10

# A job's row in the table, and the values that fill in its markup.
COLUMNS = ("pk", "project_id", "name", "version", "project__name", "created_at", "spec__task",
           "created_by__username", "created_by__first_name", "created_by__last_name")  # fmt: skip
VALUES = ("key", "name", "version", "what", "project", "run_url", "ran", "saved", "author", "csrf_token")


@page(get=lists(Permission.JOBS_READ))
def table(request: HttpRequest) -> HttpResponse:
    words = request.GET.get("q", "").strip()[:200]
    found = visible_jobs(request.user).newest()
    if words:
        found = found.filter(name__icontains=words)
    context = {"lines": _lines(request, found), "q": words}
    return show(request, "jobs/table.html", context, fragments={"table": "jobs/_table.html"})


@page(get=thing(Permission.JOBS_READ))
def job(request: HttpRequest, job_id: str) -> HttpResponse:
    chosen = get_job(request, job_id)
    versions = _versions(request, chosen).select_related("created_by")
    context = {
        "job": chosen,
        "versions": versions,
        "newest": versions.first() or chosen,  # none: it was deleted a moment ago
        "what": what(chosen),
        "yaml": yaml.safe_dump(chosen.spec, sort_keys=False, allow_unicode=True, width=100),
        "rows": rows(first_rows(_runs(request, chosen), NUM_RUNS)),
        "may_act": can(request.user, chosen.project, Permission.JOBS_EDIT),
    }
    return show(request, "jobs/job.html", context, fragments={"runs": "jobs/_runs.html"})


@page(post=thing(Permission.RUNS_LAUNCH))
def launch(request: HttpRequest, job_id: str) -> HttpResponse:
    chosen = get_job(request, job_id)
    if overflow := plan(request.user, chosen.spec, settings.PUBLIC_URL, timezone.now()).overflow:
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


def what(job: Job) -> str:
    """The recipe, or the script, in a word or two."""
    return _what(job.spec.get("task", {}))


def _what(task: Mapping[str, Any]) -> str:
    words = task.get("recipe") or task.get("script") or task.get("module") or shlex.join(task.get("command") or [])
    return str(words)[:LONGEST_WHAT]


def _lines(request: HttpRequest, found: QuerySet[Job]) -> list[SafeString]:
    """The first rows of the table."""
    jobs = _first(found)
    runs = last_runs(request.user, {pk: (project_id, name) for pk, project_id, name, *_ in jobs})
    may_act_in = set(projects_with(request.user, Permission.RUNS_LAUNCH).values_list("pk", flat=True))
    token, now, lines = get_token(request), timezone.now(), []
    for pk, project_id, name, version, project, saved, task, username, *names in jobs:
        author, last = " ".join(one for one in names if one) or username, runs.get(pk)
        row = stencil("jobs/_row.html", VALUES, badge=badge(last.status) if last else None, has_author=bool(author),
                      may_act=project_id in may_act_in)  # fmt: skip
        values = {"key": pk, "name": name, "version": version, "what": _what(task or {}), "project": project,
                  "saved": age_element(saved, now), "author": author or "", "csrf_token": token}  # fmt: skip
        if last is not None:
            values |= {"run_url": run_url(last.pk), "ran": age_element(last.created_at, now)}
        lines.append(row.fill(**values))
    return lines


def _first(found: QuerySet[Job]) -> list[tuple[Any, ...]]:
    """The columns of the first jobs, in the order of the list: which they are is read from an index alone."""
    keys = list(found.values_list("pk", flat=True)[:LIMIT])
    columns = {row[0]: row for row in Job.objects.filter(pk__in=keys).order_by().values_list(*COLUMNS)}
    return [columns[key] for key in keys if key in columns]


def _versions(request: HttpRequest, job: Job) -> Any:
    return visible_jobs(request.user).filter(project=job.project, name=job.name).order_by("-version")


def _runs(request: HttpRequest, job: Job) -> QuerySet[Run]:
    versions = Job.objects.filter(project=job.project, name=job.name).values_list("pk", flat=True)
    return visible_runs(request.user).filter(job__in=list(versions))
