"""Reports: each save is a version, and none overwrites one that its author has not seen."""

import json

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from runs.models import Project, Report, ReportComment, ReportVersion, User
from runs.rights.access import Permission, require
from runs.rights.audit.recording import describe
from runs.values.refused import Refused
from trainyard.contract.base import JsonObject
from trainyard.formats.names import without_hidden

MAX_TITLE, MAX_BODY, MAX_COMMENT = 200, 100_000, 10_000  # characters
MAX_PINNED_BYTES = 2 * 1024 * 1024


def create_report(*, actor: User, project: Project, title: str, body: str, pinned: JsonObject | None = None) -> Report:
    """Save the first version. Raises ValidationError by field, as each save does."""
    require(actor, project, Permission.RUNS_ANNOTATE)
    version = _version(actor, title, body, pinned)
    with transaction.atomic():
        version.report = Report.objects.create(
            project=project, title=version.title, created_by=actor, changed_at=version.at
        )
        version.save()
    describe(action="report.created", object=f"report {version.report_id}", project=project.name)
    return version.report


def change_report(
    *, actor: User, report: Report, title: str, body: str, version: int, pinned: JsonObject | None = None
) -> Report:
    """Save the next version, where ``version`` is the newest. Raises Refused where another came first."""
    require(actor, report.project, Permission.RUNS_ANNOTATE)
    new = _version(actor, title, body, pinned, version + 1)
    with transaction.atomic():
        same = Report.objects.filter(pk=report.pk, version=version)  # of two at once the database lets one find it
        if not same.update(title=new.title, version=new.number, changed_at=new.at):
            report.refresh_from_db(fields=["version"])
            raise Refused(
                "version-conflict", f"Version {report.version} is the newest, not {version}. Nothing was saved."
            )
        new.report = report
        new.save()
    describe(action="report.changed")
    report.refresh_from_db()
    return report


def archive_report(*, actor: User, report: Report, is_archived: bool = True) -> None:
    require(actor, report.project, Permission.RUNS_ANNOTATE)
    Report.objects.filter(pk=report.pk).update(is_archived=is_archived)
    describe(action="report.changed")


def deleting_report(actor: User, report: Report) -> Permission:
    return Permission.RUNS_DELETE if report.created_by_id == actor.pk else Permission.RUNS_DELETE_OTHERS


def delete_report(*, actor: User, report: Report) -> None:
    """Delete it with its versions and comments: one's own as a member, others' as a maintainer."""
    require(actor, report.project, deleting_report(actor, report))
    report.delete()
    describe(action="report.deleted")


def comment_report(*, actor: User, report: Report, text: str) -> ReportComment:
    require(actor, report.project, Permission.RUNS_ANNOTATE)
    text = text.replace("\0", "").strip()
    if not text or len(text) > MAX_COMMENT:
        raise ValidationError({"text": f"A comment has 1 to {MAX_COMMENT:,} characters, not {len(text):,}."})
    describe(action="report.commented")
    return ReportComment.objects.create(report=report, number=report.version, text=text, author=actor)


def _version(actor: User, title: str, body: str, pinned: JsonObject | None, number: int = 1) -> ReportVersion:
    title, body = without_hidden(title).strip(), body.replace("\0", "").replace("\r\n", "\n")
    problems = {}
    if not title or len(title) > MAX_TITLE:
        problems["title"] = f"A title has 1 to {MAX_TITLE} characters, not {len(title):,}."
    if len(body) > MAX_BODY:
        problems["body"] = f"A report has at most {MAX_BODY:,} characters, not {len(body):,}."
    if pinned is not None and (size := len(json.dumps(pinned))) > MAX_PINNED_BYTES:
        problems["pinned"] = f"The numbers are {size:,} bytes; at most {MAX_PINNED_BYTES:,} are kept. Show fewer runs."
    if problems:
        raise ValidationError(problems)
    return ReportVersion(number=number, title=title, body=body, pinned=pinned, author=actor, at=timezone.now())
