"""Rows of the audit for a collector of OpenTelemetry: logs by OTLP over HTTP, in its JSON form. Off unless AUDIT_OTLP
names a collector.

A thread of control sends the rows in their order and goes on behind the last one that the collector took, whose number
the head of the chain has. So no row is left out, however long the collector or control is away; a row is sent
twice where the answer of the collector was lost. Of people who were erased it gets pseudonyms, as exports do.
"""

import time
from collections.abc import Sequence
from datetime import datetime

import httpx
import structlog
from django.conf import settings

from runs.models.security import AuditEntry, AuditHead
from runs.rights.audit.facts import as_attributes
from runs.rights.audit.pseudonyms import shown
from runs.serving.clock import Clock, only_one
from runs.serving.collectors import Collector
from runs.serving.otlp import RESOURCE, attributes, nanoseconds, post
from trainyard.contract.answers.people import AuditRow
from trainyard.contract.base import JsonObject
from trainyard.rest.http_clients import outside_client

log = structlog.get_logger(__name__)

AT_ONCE = 200
EVERY_S, LONGEST_WAIT_S = 2.0, 60.0
TIMEOUT_S = 10.0
SENDING_KEY, SENDING_S = "trainyard:control:audit-otlp", 15.0  # longer than a request may take
INFO, WARN = 9, 13  # severities of OpenTelemetry


def document(rows: Sequence[AuditRow]) -> JsonObject:
    """Return the rows as an ExportLogsServiceRequest in JSON."""
    scope = {"name": "trainyard.audit"}
    return {"resourceLogs": [{"resource": RESOURCE, "scopeLogs": [{"scope": scope, "logRecords": _records(rows)}]}]}


def _records(rows: Sequence[AuditRow]) -> list[JsonObject]:
    return [
        {
            "timeUnixNano": nanoseconds(datetime.fromisoformat(row["at"])),
            "observedTimeUnixNano": nanoseconds(datetime.fromisoformat(row["at"])),
            "severityNumber": INFO if row["result"] == "ok" else WARN,
            "severityText": "INFO" if row["result"] == "ok" else "WARN",
            "eventName": "trainyard.audit",
            "body": {"stringValue": "{actor} {action} {object}: {result}".format_map(row)},
            "attributes": attributes({f"trainyard.audit.{name}": value for name, value in as_attributes(row).items()}),
        }
        for row in rows
    ]


def send_next(collector: Collector, client: httpx.Client) -> int:
    """Send the next rows that the collector has not taken, and return how many. Raises NotTaken."""
    head = AuditHead.objects.filter(pk=1).first()
    if head is None or (head.sent_sequence or 0) >= head.sequence:
        return 0
    behind = max(head.sent_sequence or 0, head.cut_sequence)
    rows = list(AuditEntry.objects.filter(sequence__gt=behind).order_by("sequence")[:AT_ONCE])
    if not rows:
        return 0
    post(collector, client, document(list(shown(rows))))
    AuditHead.objects.filter(pk=1, sent_sequence=head.sent_sequence).update(sent_sequence=rows[-1].sequence)
    return len(rows)


def otlp_clock() -> Clock | None:
    """Return what sends new rows every few seconds, less often while the collector takes nothing; None without one."""
    collector, next_at, wait_s = settings.AUDIT_OTLP, 0.0, EVERY_S
    if collector is None:
        return None
    client = outside_client(timeout=TIMEOUT_S, follow_redirects=False)

    def step(now: datetime) -> None:
        nonlocal next_at, wait_s
        if time.monotonic() < next_at:
            return
        try:
            _send_all(collector, client)
            wait_s = EVERY_S
        except Exception as error:  # whatever it is, the rows wait in the database
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)
            log.warning("audit.otlp_waits", error=str(error)[:200], again_in_s=wait_s)
            next_at = time.monotonic() + wait_s

    return Clock("audit-otlp", step, every_s=EVERY_S)


def _send_all(collector: Collector, client: httpx.Client) -> None:
    """Send until nothing is left. Of several control processes one sends at a time: rows keep their order."""
    is_more = True
    while is_more:
        with only_one(SENDING_KEY, SENDING_S) as lock:
            is_more = lock is not None and send_next(collector, client) > 0
