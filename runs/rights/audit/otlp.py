"""Rows of the audit for a collector of OpenTelemetry: logs by OTLP over HTTP, in its JSON form. Off unless AUDIT_OTLP
names a collector.

A thread of control sends the rows in their order and goes on behind the last one that the collector took, whose number
the head of the chain has. So no row is left out, however long the collector or control is away; a row is sent
twice where the answer of the collector was lost. Of people who were erased it gets pseudonyms, as exports do.
"""

import threading
from collections.abc import Sequence
from datetime import datetime

import httpx
import structlog
from django.conf import settings
from django.db import close_old_connections, connections
from redis.exceptions import RedisError

from runs.models.security.audit import AuditEntry, AuditHead
from runs.rights.audit.collectors import Collector
from runs.rights.audit.facts import ShownEntry, as_attributes
from runs.rights.audit.pseudonyms import shown
from runs.serving.transport import redis
from trainyard.contract.base import BadDocument, JsonObject, WireStruct, decode, encode
from trainyard.rest.http_clients import outside_client, why_not

log = structlog.get_logger(__name__)

AT_ONCE = 200
EVERY_S, LONGEST_WAIT_S = 2.0, 60.0
TIMEOUT_S = 10.0
SENDING_KEY, SENDING_MS = "trainyard:control:audit-otlp", 15_000  # longer than a request may take
MAX_ANSWER_BYTES = 64 * 1024
STOP_LIMIT_S = 2.0
INFO, WARN = 9, 13  # severities of OpenTelemetry


class NotTaken(Exception):
    """The collector did not take rows. They are sent again."""


class PartialSuccess(WireStruct, rename="camel"):
    rejected_log_records: str | int = 0
    error_message: str = ""


class CollectorAnswer(WireStruct, rename="camel"):
    """Answer of a collector (ExportLogsServiceResponse)."""

    partial_success: PartialSuccess | None = None


def document(rows: Sequence[ShownEntry]) -> JsonObject:
    """Return the rows as an ExportLogsServiceRequest in JSON."""
    resource = {"attributes": [_attribute("service.name", "trainyard")]}
    scope = {"name": "trainyard.audit"}
    return {"resourceLogs": [{"resource": resource, "scopeLogs": [{"scope": scope, "logRecords": _records(rows)}]}]}


def _records(rows: Sequence[ShownEntry]) -> list[JsonObject]:
    return [
        {
            "timeUnixNano": str(_nanoseconds(row.at)),
            "observedTimeUnixNano": str(_nanoseconds(row.at)),
            "severityNumber": INFO if row.result == "ok" else WARN,
            "severityText": "INFO" if row.result == "ok" else "WARN",
            "eventName": "trainyard.audit",
            "body": {"stringValue": f"{row.actor} {row.action} {row.object}: {row.result}"},
            "attributes": [_attribute(f"trainyard.audit.{name}", value) for name, value in as_attributes(row).items()],
        }
        for row in rows
    ]


def _attribute(name: str, value: str | int) -> JsonObject:
    """64-bit integers are texts in the JSON form of protobuf."""
    return {"key": name, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp()) * 1_000_000_000 + at.microsecond * 1_000


def send_next(collector: Collector, client: httpx.Client) -> int:
    """Send the next rows that the collector has not taken, and return how many. Raises NotTaken."""
    head = AuditHead.objects.filter(pk=1).first()
    if head is None or (head.sent_sequence or 0) >= head.sequence:
        return 0
    behind = max(head.sent_sequence or 0, head.cut_sequence)
    rows = list(AuditEntry.objects.filter(sequence__gt=behind).order_by("sequence")[:AT_ONCE])
    if not rows:
        return 0
    _post(collector, client, document(list(shown(rows))))
    AuditHead.objects.filter(pk=1, sent_sequence=head.sent_sequence).update(sent_sequence=rows[-1].sequence)
    return len(rows)


def _post(collector: Collector, client: httpx.Client, rows: JsonObject) -> None:
    headers = {"Content-Type": "application/json", **dict(collector.headers)}
    try:
        answer = client.post(collector.url, content=encode(rows), headers=headers)
    except httpx.HTTPError as error:
        raise NotTaken(f"The collector does not answer: {why_not(error)}.") from error
    if answer.status_code != 200:
        raise NotTaken(f"The collector answered {answer.status_code}.")
    try:
        partial = decode(answer.content[:MAX_ANSWER_BYTES] or b"{}", CollectorAnswer).partial_success
    except BadDocument:
        return  # a collector may answer in protobuf
    if partial is not None and int(partial.rejected_log_records):  # OTLP: what is rejected is not to be sent again
        log.error("audit.rejected", rows=partial.rejected_log_records, error=partial.error_message[:200])


class OtlpClock(threading.Thread):
    """Sends what is new every few seconds; less often while the collector takes nothing."""

    def __init__(self, collector: Collector) -> None:
        super().__init__(name="audit-otlp", daemon=True)
        self._collector = collector
        self._over = threading.Event()

    def stop(self) -> None:
        self._over.set()
        self.join(STOP_LIMIT_S)  # a collector that does not answer may be broken off: the rows are sent again

    def run(self) -> None:
        wait_s = EVERY_S
        with outside_client(timeout=TIMEOUT_S, follow_redirects=False) as client:
            while not self._over.wait(wait_s):
                close_old_connections()
                try:
                    self._send_all(client)
                    wait_s = EVERY_S
                except Exception as error:  # whatever it is, the rows wait in the database
                    wait_s = min(wait_s * 2, LONGEST_WAIT_S)
                    log.warning("audit.otlp_waits", error=str(error)[:200], again_in_s=wait_s)
        connections.close_all()

    def _send_all(self, client: httpx.Client) -> None:
        """Send until nothing is left. Of several control processes one sends at a time: rows keep their order."""
        while not self._over.is_set():
            if not redis().set(SENDING_KEY, 1, nx=True, px=SENDING_MS):
                return
            try:
                if not send_next(self._collector, client):
                    return
            finally:
                _release()


def _release() -> None:
    try:
        redis().delete(SENDING_KEY)
    except RedisError:
        log.warning("audit.otlp_key_left")  # it goes by itself


def start_clock() -> OtlpClock | None:
    if settings.AUDIT_OTLP is None:
        return None
    clock = OtlpClock(settings.AUDIT_OTLP)
    clock.start()
    return clock
