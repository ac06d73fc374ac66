"""Numbers of the server, and a trace of each run that ended, for a collector of OpenTelemetry: OTLP over HTTP in its
JSON form. Off unless TELEMETRY_OTLP names a collector.

Numbers are those of /metrics, of all clusters and runs; those that a collector does not take are gone. Ids of a trace
follow from the run's: what is sent twice is one trace. The mark in Valkey says until which end all were taken.
"""

import hashlib
from collections.abc import Iterator
from datetime import datetime, timedelta

import httpx
import structlog
from django.conf import settings

from runs.models import Attempt, Cluster, Run
from runs.presenting.exposition import Exposition
from runs.serving import transport
from runs.serving.clock import Clock
from runs.serving.collectors import Collector
from runs.serving.otlp import RESOURCE, NotTaken, attributes, nanoseconds, post
from runs.values.status import Status
from trainyard.contract.base import JsonObject
from trainyard.contract.seals import PREFIX
from trainyard.grouping import grouped
from trainyard.rest.http_clients import outside_client

log = structlog.get_logger(__name__)

EVERY_S, LOCK_S, TIMEOUT_S = 15.0, 60.0, 10.0
AT_ONCE = 100  # runs
SENT_KEY = f"{PREFIX}:control:telemetry-sent"  # Unix seconds
OVERLAP = timedelta(seconds=60)  # an end is written a little after its time
ERROR = 2  # of a span's status


class Telemetry:
    def __init__(self, collector: Collector, client: httpx.Client) -> None:
        self._collector, self._client = collector, client
        self._sent = set[str]()  # runs that ended within the overlap
        self._is_well = True

    def step(self, now: datetime) -> None:
        """Send what is new. One that takes only numbers, or only traces, gets these; what is not taken is said once."""
        problems = list[str]()
        for send in (self._send_metrics, self._send_traces):
            try:
                send(now)
            except NotTaken as error:
                problems.append(str(error))
        if problems and self._is_well:
            log.warning("telemetry.waits", errors=problems)
        self._is_well = not problems

    def _send_metrics(self, now: datetime) -> None:
        post(self._collector, self._client, metrics(now), "/v1/metrics")

    def _send_traces(self, now: datetime) -> None:
        while self._send_next(now):
            pass

    def _send_next(self, now: datetime) -> bool:
        """Send the traces of the next runs that ended, and return whether there may be more."""
        mark = transport.redis().get(SENT_KEY)
        since = datetime.fromtimestamp(float(mark), now.tzinfo) if mark else now
        ended = Run.objects.filter(ended_at__gt=since - OVERLAP, cluster__isnull=False).order_by("ended_at", "id")
        seen = set(ended.filter(ended_at__lte=since).values_list("pk", flat=True))
        self._sent &= seen
        rows = ended.exclude(pk__in=self._sent).select_related("project", "cluster")
        runs = list(rows.prefetch_related("attempts__placements__node")[:AT_ONCE])
        if runs:
            spans = [span for run in runs for span in spans_of(run)]
            scopes = [{"scope": {"name": "trainyard.runs"}, "spans": spans}]
            document: JsonObject = {"resourceSpans": [{"resource": RESOURCE, "scopeSpans": scopes}]}
            post(self._collector, self._client, document, "/v1/traces")
            self._sent |= {run.pk for run in runs}
        newest = max((run.ended_at for run in runs if run.ended_at), default=since)
        transport.redis().set(SENT_KEY, max(newest, since).timestamp())
        return len(runs) == AT_ONCE


def metrics(now: datetime) -> JsonObject:
    """Return an ExportMetricsServiceRequest: a gauge or a sum for each number of /metrics."""
    at = str(int(now.timestamp()) * 1_000_000_000)
    numbers: list[JsonObject] = []
    for family in Exposition(Cluster.objects.all(), Run.objects.all(), now).collect():
        for name, samples in grouped((one.name, one) for one in family.samples).items():
            points = [{"timeUnixNano": at, "asDouble": s.value, "attributes": attributes(s.labels)} for s in samples]
            own = {} if family.type == "gauge" else {"aggregationTemporality": 2, "isMonotonic": True}
            kind = {"sum" if own else "gauge": {"dataPoints": points, **own}}
            numbers.append({"name": name, "description": family.documentation, **kind})
    scopes = [{"scope": {"name": "trainyard.server"}, "metrics": numbers}]
    return {"resourceMetrics": [{"resource": RESOURCE, "scopeMetrics": scopes}]}


def spans_of(run: Run) -> Iterator[JsonObject]:
    """Yield the way of a run that has ended: the run, in it each wait and each attempt, and in an attempt what it
    prepared and trained."""
    end = run.ended_at or run.changed_at
    found: dict[str, str | int] = {
        "id": run.pk, "name": run.name, "project": run.project.name, "cluster": run.cluster.name if run.cluster else "",
        "status": run.status, "reason": run.reason_code,
    }  # fmt: skip
    yield _span(run, "run", run.created_at, end, found, error=run.reason_sentence * (run.status == Status.FAILED))
    since, waits_for = run.created_at, "queue"
    for attempt in run.attempts.all():
        yield _span(run, "wait", since, attempt.created_at, {"for": waits_for}, number=attempt.number)
        since, waits_for = attempt.ended_at or end, "another attempt"
        yield from _of_attempt(run, attempt, since)
    if since == run.created_at:
        yield _span(run, "wait", since, end, {"for": waits_for})


def _of_attempt(run: Run, attempt: Attempt, end: datetime) -> Iterator[JsonObject]:
    number, began = attempt.number, attempt.go_at or end
    nodes = ", ".join(one.node.name for one in attempt.placements.all())
    found: dict[str, str | int] = {"number": number, "ranks": attempt.world_size, "nodes": nodes}
    error = attempt.reason_sentence * (attempt.failure is not None)
    yield _span(run, "attempt", attempt.created_at, end, found | {"reason": attempt.reason_code}, number, error)
    yield _span(run, "prepare", attempt.created_at, began, {}, number, parent="attempt")
    if attempt.go_at:
        yield _span(run, "train", began, end, {}, number, parent="attempt")


def _span(
    run: Run, name: str, begin: datetime, end: datetime, found: dict[str, str | int],
    number: int = 0, error: str = "", parent: str = "run",
) -> JsonObject:  # fmt: skip
    own = {
        "traceId": hashlib.sha256(run.pk.encode()).hexdigest()[:32],
        "spanId": _span_id(run, name, number),
        "name": name,
        "kind": 1,  # internal
        "startTimeUnixNano": nanoseconds(begin),
        "endTimeUnixNano": nanoseconds(max(begin, end)),
        "attributes": attributes({f"trainyard.{name}.{key}": value for key, value in found.items()}),
    }
    if name != "run":
        own["parentSpanId"] = _span_id(run, parent, number if parent == "attempt" else 0)
    return own | ({"status": {"code": ERROR, "message": error}} if error else {})


def _span_id(run: Run, name: str, number: int) -> str:
    return hashlib.sha256(f"{run.pk}/{name}/{number}".encode()).hexdigest()[:16]


def telemetry_clock() -> Clock | None:
    """Return what sends every few seconds, from one control process of several; None without a collector."""
    collector = settings.TELEMETRY_OTLP
    if collector is None:
        return None
    telemetry = Telemetry(collector, outside_client(timeout=TIMEOUT_S, follow_redirects=False))
    return Clock("telemetry", telemetry.step, every_s=EVERY_S, lock_s=LOCK_S)
