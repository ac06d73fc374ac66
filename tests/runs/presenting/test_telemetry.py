"""A collector of OpenTelemetry gets numbers of the server, and one trace of each run that ended."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from structlog.testing import capture_logs

from runs.models import HeldSlot, Run
from runs.presenting.telemetry import Telemetry, telemetry_clock
from runs.serving import transport
from runs.serving.collectors import Collector, collector
from runs.values.status import Status
from tests.cast import Cast, make_attempt, make_node, make_run
from tests.receivers import Receiver, web_receiver
from trainyard.rest.http_clients import outside_client

pytestmark = pytest.mark.usefixtures("db", "valkey")
NOW = timezone.now()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with web_receiver() as one:
        yield one


def telemetry(receiver: Receiver) -> Telemetry:
    place = Collector(f"http://127.0.0.1:{receiver.port}", (("authorization", "Bearer s3cret"),))
    return Telemetry(place, outside_client(timeout=5))


def spans(receiver: Receiver) -> list[Any]:
    """Return those that were taken, read with OpenTelemetry's own definitions."""
    bodies = [one for one in receiver.bodies if "resourceSpans" in one]
    read = [json_format.ParseDict(one, ExportTraceServiceRequest()) for one in bodies]
    return [span for one in read for part in one.resource_spans for scope in part.scope_spans for span in scope.spans]


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def a_run_of_two_attempts(cast: Cast) -> Run:
    run = make_run(cast, status=Status.FAILED, reason_code="crashed", reason_sentence="Rank 1 ended with 1.")
    Run.objects.filter(pk=run.pk).update(created_at=at(0), ended_at=at(100))
    node = make_node(cast.cluster, "a")
    for number, (begin, go, end) in enumerate([(10, 12, 40), (45, None, 99)], start=1):
        attempt = make_attempt(run, [node], number=number, fence=number)
        attempt.failure = {"code": "crashed"} if number == 2 else None
        attempt.go_at, attempt.ended_at, attempt.reason_code = go and at(go), at(end), f"end-{number}"
        attempt.save()
        HeldSlot.objects.all().delete()
        type(attempt).objects.filter(pk=attempt.pk).update(created_at=at(begin))
    return run


SERIES = (("bucket", 9), ("count", 1), ("sum", 1))


def test_numbers_are_those_of_metrics(cast: Cast, receiver: Receiver) -> None:
    make_node(cast.cluster, "a", slots=4)
    make_run(cast)
    telemetry(receiver).step(NOW)
    (found,) = (json_format.ParseDict(one, ExportMetricsServiceRequest()) for one in receiver.bodies)
    (scope,) = found.resource_metrics[0].scope_metrics
    numbers = {
        (metric.name, *(one.value.string_value for one in point.attributes)): point.as_double
        for metric in scope.metrics
        for point in metric.gauge.data_points
    }
    assert numbers["trainyard_runs", "QUEUED"] == 1 and numbers["trainyard_slots", "local", "all"] == 4
    sums = {metric.name: len(metric.sum.data_points) for metric in scope.metrics if metric.sum.is_monotonic}
    assert sums == {"trainyard_requests_total": 4, **{f"trainyard_request_seconds_{end}": n for end, n in SERIES}}
    assert receiver.headers[0]["authorization"] == "Bearer s3cret"


def test_the_way_of_a_run_is_one_trace(cast: Cast, receiver: Receiver) -> None:
    telemetry(receiver).step(at(-1))  # the first time it begins with now
    run = a_run_of_two_attempts(cast)
    make_run(cast, status=Status.RUNNING)
    telemetry(receiver).step(at(101))
    found = spans(receiver)
    times = [
        (one.name, *((moment / 1e9 - NOW.timestamp()) for moment in (one.start_time_unix_nano, one.end_time_unix_nano)))
        for one in found
    ]
    assert times == [
        ("run", pytest.approx(0, abs=1e-3), pytest.approx(100, abs=1e-3)),
        ("wait", pytest.approx(0, abs=1e-3), pytest.approx(10, abs=1e-3)),
        ("attempt", pytest.approx(10, abs=1e-3), pytest.approx(40, abs=1e-3)),
        ("prepare", pytest.approx(10, abs=1e-3), pytest.approx(12, abs=1e-3)),
        ("train", pytest.approx(12, abs=1e-3), pytest.approx(40, abs=1e-3)),
        ("wait", pytest.approx(40, abs=1e-3), pytest.approx(45, abs=1e-3)),
        ("attempt", pytest.approx(45, abs=1e-3), pytest.approx(99, abs=1e-3)),
        ("prepare", pytest.approx(45, abs=1e-3), pytest.approx(99, abs=1e-3)),
    ]
    assert len({one.trace_id for one in found}) == 1 and len({one.span_id for one in found}) == len(found)
    root = found[0]
    assert root.parent_span_id == b"" and (root.status.code, root.status.message) == (2, "Rank 1 ended with 1.")
    parents = [next(two.name for two in found if two.span_id == one.parent_span_id) for one in found[1:]]
    assert parents == ["run", "run", "attempt", "attempt", "run", "run", "attempt"]
    facts = {one.key: one.value.string_value or one.value.int_value for one in [*root.attributes, *found[2].attributes]}
    assert facts["trainyard.run.id"] == run.pk and facts["trainyard.attempt.nodes"] == "a"


def test_a_run_that_never_began_only_waited(cast: Cast, receiver: Receiver) -> None:
    telemetry(receiver).step(at(-1))
    run = make_run(cast, status=Status.CANCELLED)
    Run.objects.filter(pk=run.pk).update(ended_at=at(5))
    telemetry(receiver).step(at(6))
    assert [one.name for one in spans(receiver)] == ["run", "wait"]


def test_each_is_sent_once_and_none_is_lost_while_the_collector_is_away(cast: Cast, receiver: Receiver) -> None:
    one = telemetry(receiver)
    one.step(at(-1))
    a_run_of_two_attempts(cast)
    receiver.codes += [503, 503, 200, 503]  # of numbers and traces, twice
    with capture_logs() as said:
        one.step(at(101))
        one.step(at(102))
    assert [line["event"] for line in said] == ["telemetry.waits"] and spans(receiver) == []
    another = telemetry(receiver)  # after the first process was killed
    another.step(at(4000))
    another.step(at(4015))
    assert [span.name for span in spans(receiver)].count("run") == 1
    telemetry(receiver).step(at(4030))  # one that does not know what was sent sends the last minute again, as it was
    ids = [span.span_id for span in spans(receiver)]
    assert len(ids) == 16 and len(set(ids)) == 8
    assert float(str(transport.redis().get("trainyard:control:telemetry-sent"), "utf-8")) == pytest.approx(
        at(100).timestamp()
    )


def test_one_that_takes_no_numbers_gets_the_traces(cast: Cast, receiver: Receiver) -> None:
    """A store of traces alone answers 404 to numbers."""
    one = telemetry(receiver)
    one.step(at(-1))
    a_run_of_two_attempts(cast)
    receiver.codes += [404]
    one.step(at(101))
    assert len(spans(receiver)) == 8


def test_nothing_is_sent_without_a_collector(settings: Any) -> None:
    assert settings.TELEMETRY_OTLP is None and telemetry_clock() is None


def test_an_address_may_have_a_path_and_a_wrong_one_is_named() -> None:
    assert collector("https://c:4318/", "", "TELEMETRY_OTLP", "") == Collector("https://c:4318")
    assert collector("https://c/own/", "", "TELEMETRY_OTLP", "") == Collector("https://c/own")
    with pytest.raises(ValueError, match=r"^TELEMETRY_OTLP is an address such as https://collector:4318, not 'c:4318'"):
        collector("c:4318", "", "TELEMETRY_OTLP", "")
    with pytest.raises(ValueError, match=r"^TELEMETRY_OTLP_HEADERS is name=value"):
        collector("https://c", "s3cret", "TELEMETRY_OTLP", "")
