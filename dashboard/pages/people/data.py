"""A project's data: where they lie, for how long they are kept, and how much they may be."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.forms import modelform_factory
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from dashboard.pages.people.views import usage_context
from dashboard.pages.shared.frame import page, person, problems_of, show
from runs import actions
from runs.models import Project, StoredData
from runs.placing.admission import parts_of
from runs.privacy.retention import in_words
from runs.privacy.storage import REMOVABLE, WORDS, DataKind, days_kept
from runs.rights.access import Permission, get_project, is_administrator, permissions_in
from runs.rights.access.operations import HIDDEN_ADMINISTRATOR, thing
from runs.rights.secrets.storage_keys import newest_number
from runs.values.refused import Refused

GB = 10**9
Limits = modelform_factory(Project, fields=actions.LIMITS)
ENCRYPTION_WORDS = {
    "on": "Logs, media and output files are encrypted from now on, and checkpoints of attempts that begin from now on.",
    "off": "What comes from now on is not encrypted. What is there stays as it is.",
    "new-key": "What comes from now on is encrypted with the new key. Older keys open what they encrypted.",
    "destroy": "The keys are destroyed. What they encrypted cannot be read any more.",
}


@page(get=thing(Permission.PROJECTS_READ))
def data(request: HttpRequest, project_id: str) -> HttpResponse:
    return _show(request, get_project(request, project_id))


@page(post=thing(Permission.PRIVACY_MANAGE))
def retention(request: HttpRequest, project_id: str) -> HttpResponse:
    """Show what would go; save when that is what was pressed."""
    project = get_project(request, project_id)
    typed = {str(kind): request.POST.get(f"days-{kind}", "").strip() for kind in REMOVABLE}
    try:
        days = _days(typed)
        if request.POST.get("what") == "save":
            actions.set_retention(actor=person(request), project=project, days=days)
            messages.success(request, "Saved. What is older is removed within the hour.")
            return redirect("project-data", project.pk)
        removals = actions.preview_retention(actor=person(request), project=project, days=days)
    except ValidationError as error:
        return _show(request, project, typed=typed, problems=problems_of(error), status=422)
    shown = [(WORDS[one.kind], one.days, one.num_runs, in_words(one.bytes)) for one in removals]
    return _show(request, project, typed=typed, removals=shown, is_preview=True)


@page(post=thing(Permission.PRIVACY_MANAGE))
def regions(request: HttpRequest, project_id: str) -> HttpResponse:
    project = get_project(request, project_id)
    try:
        actions.set_regions(actor=person(request), project=project, regions=request.POST.getlist("region"))
    except ValidationError as error:
        project.refresh_from_db()
        return _show(request, project, region_problem=problems_of(error)["regions"], status=422)
    where = f"in {' or '.join(project.region_list)}" if project.regions else "anywhere"
    messages.success(request, f"From now on the data of {project.name} is stored {where}.")
    return redirect("project-data", project.pk)


@page(post=thing(Permission.PRIVACY_MANAGE))
def encryption(request: HttpRequest, project_id: str) -> HttpResponse:
    """Switch it on or off, make a new key, or destroy all keys, by the button that was pressed."""
    project = get_project(request, project_id)
    user, what = person(request), request.POST.get("what", "")
    try:
        if what in ("on", "off"):
            actions.set_encryption(actor=user, project=project, encrypts=what == "on")
        elif what == "new-key":
            actions.rotate_storage_key(actor=user, project=project)
        elif what == "destroy":
            actions.destroy_storage_keys(actor=user, project=project, confirm=request.POST.get("confirm", "").strip())
    except Refused as refused:
        return _show(request, project, encryption_problem=refused.sentence, status=409)
    if what in ENCRYPTION_WORDS:
        messages.success(request, ENCRYPTION_WORDS[what])
    return redirect("project-data", project.pk)


@page(post=thing(Permission.PRIVACY_MANAGE))
def measure(request: HttpRequest, project_id: str) -> HttpResponse:
    project = get_project(request, project_id)
    actions.measure_storage(actor=person(request), project=project)
    return redirect("project-data", project.pk)


@page(post=HIDDEN_ADMINISTRATOR)
def quota(request: HttpRequest, project_id: str) -> HttpResponse:
    project = get_project(request.user, project_id)
    typed = request.POST.get("gigabytes", "").strip()
    try:
        number = round(float(typed) * GB) if typed else None
        actions.set_quota(actor=person(request), project=project, quota_bytes=number)
    except (ValueError, OverflowError, ValidationError):
        problem = f"A quota is a number of GB above 0, or nothing, not {typed[:20]!r}."
        return _show(request, project, quota_problem=problem, status=422)
    return redirect("project-data", project.pk)


@page(post=HIDDEN_ADMINISTRATOR)
def limits(request: HttpRequest, project_id: str) -> HttpResponse:
    project, form = get_project(request.user, project_id), Limits(request.POST)
    if form.is_valid():
        try:
            actions.set_limits(actor=person(request), project=project, **form.cleaned_data)
            return redirect("project-data", project.pk)
        except ValidationError as error:
            form.add_error(None, error)
    return _show(request, project, limits=form, status=422)


def _days(typed: dict[str, str]) -> dict[str, int | None]:
    wrong = {kind: "A number of days, or nothing for ever." for kind, text in typed.items() if not _is_number(text)}
    if wrong:
        raise ValidationError(wrong)
    return {kind: int(text) if text else None for kind, text in typed.items()}


def _is_number(text: str) -> bool:
    return not text or (text.isascii() and text.isdigit() and len(text) < 8)


def _show(
    request: HttpRequest,
    project: Project,
    *,
    typed: dict[str, str] | None = None,
    problems: dict[str, str] | None = None,
    status: int = 200,
    **context: Any,
) -> HttpResponse:
    rows = list(StoredData.objects.filter(project=project))
    outside = [not project.may_lie_in(row.region) for row in rows]
    sizes = [in_words(row.bytes) for row in rows]
    around = {
        "project": project,
        "places": [(one, WORDS[DataKind(one.kind)], *more) for one, *more in zip(rows, sizes, outside, strict=True)],
        "num_outside": sum(outside),
        "measured_at": max((row.measured_at for row in rows), default=None),
        "total": in_words(sum(row.bytes for row in rows)),
        **usage_context(project),
        "limits": Limits(instance=project),
        "part": (part := parts_of(Project.objects.filter(pk=project.pk), timezone.now())[project.name]),
        "part_warning": part.warning(project.name),
        "gigabytes": f"{project.quota_bytes / GB:g}" if project.quota_bytes else "",
        "kinds": [
            (
                kind,
                WORDS[kind],
                typed[kind] if typed else days_kept(project, kind) or "",
                (problems or {}).get(kind, ""),
            )
            for kind in REMOVABLE
        ],
        "regions": [(one, one in project.region_list) for one in actions.known_regions()],
        "storage_key": newest_number(project),
        "server_region": settings.SERVER_REGION,
        "audit_days": settings.AUDIT_KEEP_DAYS,
        "may_set": Permission.PRIVACY_MANAGE in permissions_in(request.user, project),
        "may_set_quota": is_administrator(request.user),
    }
    return show(request, "people/data.html", {**around, **context}, status=status)
