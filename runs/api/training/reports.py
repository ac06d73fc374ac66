"""``/reports``: texts about runs, in versions."""

from collections.abc import Sequence

from django.http import HttpRequest
from ninja import Body as InBody
from ninja import Field, Query, Schema

from runs import actions
from runs.api.auth import Resource, actor
from runs.api.paging import ListQuery, Page
from runs.api.schemas import Body
from runs.models import Report
from runs.presenting.stamps import document_of
from runs.rights.access import Permission, get_project, get_report, named_project, visible_reports
from runs.rights.access.operations import lists, operation, thing

router = Resource(tags=["reports"])


class ReportIn(Body):
    project: str
    title: str
    body: str = Field("", description="Markdown with [blocks](reports.md)")


class ReportChange(Body):
    title: str
    body: str
    version: int = Field(ge=1, le=1_000_000, description="the newest, as it was read")


class ReportLink(Schema):
    id: str
    url: str = Field(description="its page")


class ReportItem(ReportLink):
    project: str
    title: str
    version: int
    archived: bool
    created_by: str | None
    created_at: str
    changed_at: str


class ReportOut(ReportItem):
    body: str
    author: str | None = Field(description="of this version")
    pinned: bool = Field(description="true: its numbers are those of the time when it was saved")


@router.post("/reports", response={201: ReportLink}, summary="Make a report")
@operation(thing(Permission.RUNS_ANNOTATE))
def create(request: HttpRequest, body: InBody[ReportIn]) -> ReportLink:
    """Example: `{"project": "default", "title": "Warm-up", "body": "# What we saw"}`"""
    project = get_project(request, body.project)
    made = actions.create_report(actor=actor(request), project=project, title=body.title, body=body.body)
    return ReportLink(id=made.pk, url=_url(made))


@router.get("/reports", response=Page[ReportItem])
@operation(lists(Permission.RUNS_READ))
def find(request: HttpRequest, query: Query[ListQuery], project: str | None = None) -> Page[ReportItem]:
    found = visible_reports(actor(request))
    if project:
        found = found.filter(project=named_project(actor(request), project))
    return query.page(found, _items, sort="-created_at")


@router.get("/reports/{report_id}", response=ReportOut)
@operation(thing(Permission.RUNS_READ))
def show(request: HttpRequest, report_id: str) -> ReportOut:
    return _whole(get_report(request, report_id))


@router.put("/reports/{report_id}", response=ReportOut, summary="Save the next version of a report")
@operation(thing(Permission.RUNS_ANNOTATE))
def change(request: HttpRequest, report_id: str, body: InBody[ReportChange]) -> ReportOut:
    """409 where `version` is not the newest: nothing is overwritten. Example: `{"title": "Warm-up", "body": "Less is
    more.", "version": 1}`"""
    return _whole(actions.change_report(actor=actor(request), report=get_report(request, report_id), **body.dict()))


@router.delete("/reports/{report_id}", response={204: None}, summary="Delete a report with all its versions")
@operation(thing(Permission.RUNS_DELETE))
def delete(request: HttpRequest, report_id: str) -> None:
    """One's own as a member, others' as a maintainer."""
    actions.delete_report(actor=actor(request), report=get_report(request, report_id))


def _url(report: Report) -> str:
    return f"/reports/{report.pk}/"


def _whole(report: Report) -> ReportOut:
    newest = report.versions.select_related("author").get(number=report.version)
    author = newest.author.username if newest.author else None
    item = _items([report])[0].dict()
    return ReportOut(**item, body=newest.body, author=author, pinned=newest.pinned is not None)


def _items(rows: Sequence[Report]) -> list[ReportItem]:
    names = ReportItem.model_fields
    return [ReportItem(**document_of(row, names, url=_url(row), archived=row.is_archived)) for row in rows]
