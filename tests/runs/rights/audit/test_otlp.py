"""Rows of the audit reach a collector of OTLP in their order, each at least once, and none is lost while it is away."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
from django.utils import timezone
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from runs.models import AuditEntry, AuditHead
from runs.rights.audit import otlp
from runs.rights.audit.chain import append, remove_before
from runs.rights.audit.facts import Act
from runs.serving.collectors import Collector, collector, syslog_place
from runs.serving.otlp import NotTaken
from tests.runs.rights.audit.test_chain import fill

PLACE = Collector("https://collector:4318/v1/logs", (("authorization", "Bearer s3cret"),))
Answering = Callable[[httpx.Request], httpx.Response]


class Taken:
    """A collector that reads what it gets with OpenTelemetry's own definitions."""

    def __init__(self, answer: Answering) -> None:
        self.answer, self.records, self.headers = answer, list[Any](), dict[str, str]()
        self.client = httpx.Client(transport=httpx.MockTransport(self._take))

    def _take(self, request: httpx.Request) -> httpx.Response:
        assert str(request.url) == PLACE.url and request.headers["content-type"] == "application/json"
        found = json_format.Parse(request.content, ExportLogsServiceRequest())  # raises for a field that it has not
        self.records += [one for part in found.resource_logs for scope in part.scope_logs for one in scope.log_records]
        self.headers = dict(request.headers)
        return self.answer(request)

    @property
    def sequences(self) -> list[int]:
        return [next(one.value.int_value for one in record.attributes if one.key.endswith(".sequence"))
                for record in self.records]  # fmt: skip


def ok(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, json={})


def lost(_: httpx.Request) -> httpx.Response:
    raise httpx.ReadTimeout("the answer was lost")


def send_all(taken: Taken) -> None:
    while otlp.send_next(PLACE, taken.client):
        pass


def test_rows_arrive_in_order_with_their_facts_and_without_secrets(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "AT_ONCE", 2)
    fill(5)
    taken = Taken(ok)
    send_all(taken)
    assert taken.sequences == [1, 2, 3, 4, 5] and taken.headers["authorization"] == "Bearer s3cret"
    row, record = AuditEntry.objects.get(sequence=3), taken.records[2]
    facts = {one.key.removeprefix("trainyard.audit."): one.value for one in record.attributes}
    assert facts["hash"].string_value == row.hash and facts["action"].string_value == "runs.stop"
    assert record.time_unix_nano // 1000 == round(row.at.timestamp() * 1_000_000)
    assert record.body.string_value == "mate runs.stop run 2: ok" and "s3cret" not in repr(PLACE)
    send_all(taken)
    assert len(taken.records) == 5


@pytest.mark.parametrize(
    "answer", [lost, lambda _: httpx.Response(503), lambda _: httpx.Response(401), lambda _: httpx.Response(302)]
)
def test_what_was_not_answered_is_sent_again_and_nothing_is_left_out(db: None, answer: Answering) -> None:
    fill(2)
    away = Taken(answer)
    with pytest.raises(NotTaken):
        otlp.send_next(PLACE, away.client)
    fill(1)
    back = Taken(ok)  # another process, after the first was killed
    send_all(back)
    assert away.sequences == [1, 2] and back.sequences == [1, 2, 3]


def test_what_the_collector_rejects_is_an_error_of_the_log_and_stops_nothing(db: None) -> None:
    fill(1)
    partial = {"partialSuccess": {"rejectedLogRecords": "1", "errorMessage": "too old"}}
    send_all(Taken(lambda _: httpx.Response(200, json=partial)))
    assert AuditHead.objects.get().sent_sequence == 1


def test_retention_leaves_what_was_not_sent(db: None, settings: Any) -> None:
    settings.AUDIT_OTLP = PLACE
    fill(3)
    later = timezone.now() + timedelta(days=1)
    assert remove_before(later) == 0 and AuditEntry.objects.count() == 3
    send_all(Taken(ok))
    assert remove_before(later) == 3


def test_the_address_and_the_headers_are_checked(db: None) -> None:
    assert collector("") is None
    found = collector("http://127.0.0.1:4318", "authorization=Bearer%20x, tenant=a")
    assert found == Collector("http://127.0.0.1:4318/v1/logs", (("authorization", "Bearer x"), ("tenant", "a")))
    assert collector("https://c/own/path") == Collector("https://c/own/path")
    with pytest.raises(ValueError, match=r"^AUDIT_OTLP_HEADERS is name=value") as error:
        collector("https://c", "s3cret")
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize(
    "address", ["collector:4318", "https://[collector", "https://c:99999", "https://c:port", "//c"]
)
def test_an_address_that_is_none_is_named_with_its_setting(address: str) -> None:
    for setting, read in (("AUDIT_OTLP", collector), ("AUDIT_SYSLOG", syslog_place)):
        with pytest.raises(ValueError, match=f"^{setting} is ") as error:
            read(address.replace("https", "tcp") if read is syslog_place else address)
        assert address.rpartition("/")[2] in str(error.value)


def test_the_password_in_an_address_is_not_shown() -> None:
    for read, address in ((collector, "https://u:s3cret@c"), (syslog_place, "tcp://u:s3cret@c")):
        with pytest.raises(ValueError, match=r"not '(https|tcp)://…@c'") as error:
            read(address)
        assert "s3cret" not in str(error.value)


def test_an_act_that_was_refused_is_a_warning(db: None) -> None:
    row = Act(actor="mate", action="runs.stop", object="run 1", result="refused: 403")
    append(row)
    taken = Taken(ok)
    send_all(taken)
    assert taken.records[0].severity_text == "WARN"
