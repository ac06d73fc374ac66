"""Removes old rows so that the rest can still be checked: the head keeps number and hash of the last that went."""

from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.db import transaction

from runs.models.security.audit import AuditEntry
from runs.rights.audit.chain import append, locked_head, seal
from runs.rights.audit.facts import Act

log = structlog.get_logger(__name__)

AT_ONCE = 5_000


def remove_old(now: datetime) -> int:
    """Remove rows older than AUDIT_KEEP_DAYS, some at a time, and return how many. 0 days: none."""
    days = settings.AUDIT_KEEP_DAYS
    return remove_before(now - timedelta(days=days)) if days else 0


def remove_before(before: datetime) -> int:
    """Remove rows from before that time, at most AT_ONCE. Rows go in their order: an older time behind a newer one,
    as a clock that was set back leaves, waits for it, and so does a row that the collector of OTLP has not taken."""
    if not AuditEntry.objects.filter(at__lt=before).exists():
        return 0
    with transaction.atomic():
        head = locked_head()
        kept = AuditEntry.objects.filter(at__gte=before).order_by("sequence").values_list("sequence", flat=True).first()
        last = min(head.cut_sequence + AT_ONCE, head.sequence if kept is None else kept - 1)
        if settings.AUDIT_OTLP is not None:
            last = min(last, head.sent_sequence or 0)  # what the collector has not taken waits for it
        edge = AuditEntry.objects.filter(sequence=last).first()
        if edge is None:
            return 0
        number = last - head.cut_sequence
        head.cut_sequence, head.cut_hash = edge.sequence, edge.hash
        seal(head)
        head.save()  # first: the database's trigger lets go of rows up to the cut alone
        rows = AuditEntry.objects.filter(sequence__lte=last)
        rows._raw_delete(rows.db)
        append(Act(action="audit.cut", object=f"rows up to {last}", result="ok", after={"cut": {"hash": edge.hash}}))
    log.info("audit.cut", rows=number, up_to=last)
    return number
