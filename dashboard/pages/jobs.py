"""Jobs: saved specs, their versions, and the runs that came of them."""

from __future__ import annotations

import shlex
from typing import Any
from urllib.parse import urlencode

import yaml
from django.conf import settings
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from dashboard.pages.launch.plan import plan
from dashboard.pages.shared.badges import badge
from dashboard.pages.shared.frame import answer, page, person, refusal, show
from dashboard.pages.shared.run_rows import rows
from runs import actions
from runs.access import Permission, can, get_job, projects_with, visible_jobs, visible_runs
from runs.models import Job, Run
from runs.ordered import first_rows
from runs.presenting.listing import last_runs
from trainyard.spec import SpecError

LONGEST_WHAT = 200

LIMIT = 200
NUM_RUNS = 10


@page()
def table(request: HttpRequest) -> HttpResponse:
    words = request.GET.get("q", "").strip()[:200]
    found = visible_jobs(request.user).newest().select_related("created_by")
    if words:
        found = found.filter(name__icontains=words)
    jobs = first_rows(found, LIMIT)
    runs = last_runs(request.user, jobs)
    may_act_in = set(projects_with(request.user, Permission.RUNS_LAUNCH).values_list("pk", flat=True))
    lines = [{"job": job, "last": last, "badge": badge(last.status) if last else None, "what": what(job),
              "may_act": job.project_id in may_act_in}
             for job in jobs for last in [runs.get(job.pk)]]  # fmt: skip
    context = {"lines": lines, "q": words}
    return show(request, "jobs/table.html", context, fragments={"table": "jobs/_table.html"})


@page()
def job(request: HttpRequest, job_id: str) -> HttpResponse:
    chosen = get_job(request.user, job_id)
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


@page(methods=("POST",))
def launch(request: HttpRequest, job_id: str) -> HttpResponse:
    chosen = get_job(request.user, job_id)
    if overflow := plan(request.user, chosen.spec, settings.PUBLIC_URL, timezone.now()).overflow:
        form = f"{reverse('launch')}?{urlencode({'from': f'job:{chosen.pk}'})}"  # where it can be confirmed
        return answer(request, f"Job {chosen.name} was not launched. {overflow}", to=form)
    try:
        run = actions.submit_run(actor=person(request), job=chosen)
    except SpecError as error:  # the cluster changed since it was saved
        return refusal(request, 422, f"Job {chosen.name} cannot be launched as it is: {error}.")
    return answer(request, f"Launched {run.name}.", to=reverse("run", args=(run.pk,)))


@page(methods=("POST",))
def delete(request: HttpRequest, job_id: str) -> HttpResponse:
    chosen = get_job(request.user, job_id)
    actions.delete_job(actor=person(request), job=chosen)
    return answer(request, f"Deleted job {chosen.name}.", to=reverse("jobs"))


def what(job: Job) -> str:
    """The recipe, or the script, in a word or two."""
    task = job.spec.get("task", {})
    words = task.get("recipe") or task.get("script") or task.get("module") or shlex.join(task.get("command") or [])
    return str(words)[:LONGEST_WHAT]


def _versions(request: HttpRequest, job: Job) -> Any:
    return visible_jobs(request.user).filter(project=job.project, name=job.name).order_by("-version")


def _runs(request: HttpRequest, job: Job) -> QuerySet[Run]:
    versions = Job.objects.filter(project=job.project, name=job.name).values_list("pk", flat=True)
    return visible_runs(request.user).filter(job__in=list(versions))
