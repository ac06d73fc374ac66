"""``/audit``: who did what, for auditors and, within their projects, for owners. ``/compliance``: what is measured."""

from datetime import datetime
from typing import Annotated, Literal

from django.http import HttpRequest, StreamingHttpResponse
from django.utils import timezone
from ninja import Field, Query, Schema

from runs.api.auth import Resource, actor
from runs.api.paging import MAX_LIMIT, ListQuery, Page, page_of
from runs.api.schemas import schema_of
from runs.api.streaming import LastingRight, text_response
from runs.presenting import audit_rows
from runs.presenting.audit_rows import AuditFilters
from runs.privacy import compliance
from runs.rights.access import Forbidden, Permission
from runs.rights.access.operations import ADMINISTRATOR, auditors, auditors_of_all, operation
from runs.rights.audit import chain
from runs.rights.audit.pseudonyms import shown
from trainyard.contract.answers.people import AuditRow, Compliance, Fault, Verdict

router = Resource(tags=["audit"])


class FiltersQuery(Schema):
    actor: str = Field("", max_length=200)
    action: str = Field("", max_length=120, description="`runs.stop`, or `runs` for all that begin so")
    object: str = Field("", max_length=200, description="part of it, such as a run's id")
    project: str = Field("", max_length=80, description="its name")
    address: str = Field("", max_length=64)
    result: Literal["", "ok", "refused", "failed"] = ""
    q: str = Field("", max_length=200, description="part of the actor, action, object, token, address or values")
    since: datetime | None = Field(None, description="from this time on")
    until: datetime | None = Field(None, description="before this time")

    @property
    def filters(self) -> AuditFilters:
        return AuditFilters(**self.dict(include=set(AuditFilters._fields)))


class AuditQuery(FiltersQuery, ListQuery):
    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = 50


@router.get("/audit", response=page_of(AuditRow, "AuditOut"), summary="Who did what, the newest first")
@operation(auditors(Permission.AUDIT_READ))
def find(request: HttpRequest, query: Query[AuditQuery]) -> "Page[AuditRow]":
    """For auditors; owners see their projects. Example: `?action=runs.stop&project=vision`"""
    rows = audit_rows.filtered(audit_rows.visible_entries(actor(request)), query.filters)
    return query.page(rows, lambda some: list(shown(some)), sort="-sequence")


@router.get("/audit/export", response=None, summary="All that fits, the oldest first, as JSON lines or CSV")
@operation(auditors(Permission.AUDIT_READ))
def export(
    request: HttpRequest, query: Query[FiltersQuery], format: Literal["jsonl", "csv"] = "jsonl"
) -> StreamingHttpResponse:
    """With the hashes. Example: `?format=csv&since=2030-01-01T00:00:00Z`"""
    rows = audit_rows.filtered(audit_rows.visible_entries(actor(request)), query.filters)
    right = LastingRight(request, audit_rows.visible_entries)
    if format == "csv":
        return text_response(request, audit_rows.csv_lines(rows), right, "text/csv; charset=utf-8", "audit.csv")
    return text_response(request, audit_rows.json_lines(rows), right, "application/jsonl; charset=utf-8", "audit.jsonl")


@router.get("/audit/verify", response=schema_of(Verdict), summary="Check the chain of hashes")
@operation(auditors_of_all(Permission.AUDIT_READ))
def verify(request: HttpRequest) -> Verdict:
    """For auditors. `fault` names the first row that does not fit."""
    if not audit_rows.is_auditor(actor(request)):
        raise Forbidden("Only auditors may check the whole chain.")
    found = chain.verify()
    fault = found.fault
    return Verdict(
        intact=fault is None,
        first=found.first,
        last=found.last,
        rows=found.num_rows,
        hash=found.head,
        fault=None if fault is None else Fault(sequence=fault.sequence, sentence=fault.sentence),
    )


@router.get("/compliance", response=schema_of(Compliance), summary="Controls, measured now, as a signed report")
@operation(ADMINISTRATOR)
def measure(request: HttpRequest) -> Compliance:
    """It reads the whole audit, which may take a while."""
    return compliance.report(timezone.now())
