"""Reports: each save is a version, and none overwrites one that its author has not seen."""

import json

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from runs.actions.runs import deleting
from runs.models import Project, Report, ReportComment, ReportVersion, User
from runs.rights.access import Permission, require
from runs.rights.audit.recording import describe
from runs.values.refused import Refused
from trainyard.contract.base import JsonObject
from trainyard.formats.names import without_hidden

MAX_PINNED_BYTES = 2 * 1024 * 1024


def create_report(*, actor: User, project: Project, title: str, body: str, pinned: JsonObject | None = None) -> Report:
    """Save the first version. Raises ValidationError by field, as each save does."""
    require(actor, project, Permission.RUNS_ANNOTATE)
    version = _version(actor, title, body, pinned)
    with transaction.atomic():
        version.report = Report.objects.create(project=project, title=version.title, created_by=actor)
        version.save()
    describe(action="report.created", object=f"report {version.report_id}", project=project.name)
    return version.report


def change_report(
    *, actor: User, report: Report, title: str, body: str, version: int, pinned: JsonObject | None = None
) -> Report:
    """Save the next version, where ``version`` is the newest. Raises Refused where another came first."""
    require(actor, report.project, Permission.RUNS_ANNOTATE)
    new = _version(actor, title, body, pinned)
    new.report, new.number = report, version + 1
    with transaction.atomic():
        same = Report.objects.filter(pk=report.pk, version=version)  # of two at once the database lets one find it
        is_newest = same.update(title=new.title, version=new.number, changed_at=timezone.now())
        report.refresh_from_db(fields=["title", "version", "changed_at"])
        if not is_newest:
            words = f"Version {report.version} is the newest, not {version}. Nothing was saved."
            raise Refused("version-conflict", words)
        new.save()
    describe(action="report.changed")
    return report


def archive_report(*, actor: User, report: Report, is_archived: bool = True) -> None:
    require(actor, report.project, Permission.RUNS_ANNOTATE)
    Report.objects.filter(pk=report.pk).update(is_archived=is_archived)
    describe(action="report.changed")


def delete_report(*, actor: User, report: Report) -> None:
    """Delete it with its versions and comments: one's own as a member, others' as a maintainer."""
    require(actor, report.project, deleting(actor, report))
    report.delete()
    describe(action="report.deleted")


def comment_report(*, actor: User, report: Report, text: str) -> None:
    require(actor, report.project, Permission.RUNS_ANNOTATE)
    text = text.replace("\0", "").strip()
    comment = ReportComment(report=report, number=report.version, text=text, author=actor)
    comment.clean_fields()
    comment.save()
    describe(action="report.commented")


def _version(actor: User, title: str, body: str, pinned: JsonObject | None) -> ReportVersion:
    body = body.replace("\0", "").replace("\r\n", "\n")
    version = ReportVersion(title=without_hidden(title).strip(), body=body, pinned=pinned, author=actor)
    version.clean_fields(exclude=("report",))
    if pinned is not None and (size := len(json.dumps(pinned))) > MAX_PINNED_BYTES:
        words = f"The numbers are {size:,} bytes; at most {MAX_PINNED_BYTES:,} are kept. Show fewer runs."
        raise ValidationError({"pinned": words})
    return version
