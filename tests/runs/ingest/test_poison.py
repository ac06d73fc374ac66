"""Entries that end their reader: each becomes a dead letter, and what lies behind it is stored."""

from __future__ import annotations

import pytest
from django.db import DataError, OperationalError

from runs.ingest import commit as commit_module
from runs.ingest import rounds
from runs.records.logs.read import read_logs
from runs.records.metrics.models import DeadLetter, NodeSample
from runs.serving.transport import redis
from tests.runs.ingest.conftest import Stage, drain
from tests.spools import Spool, send, send_health
from trainyard.contract.seals import frames_scope, mac, stream_key

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")

DEEP = b"[" * 100_000
RAISED = [RecursionError, MemoryError, OverflowError, UnicodeError, AttributeError, KeyError, DataError]


def test_a_health_sample_that_no_parser_can_read_is_a_dead_letter_and_the_next_one_is_stored(stage: Stage) -> None:
    node = stage.node
    fields = {"n": node.pk, "r": "", "a": "", "f": 0, "d": DEEP, "m": mac(node.key, frames_scope(node.pk, "", 0), DEEP)}
    redis().xadd(stream_key(0), fields)
    send_health(node, {"at": 5.0})
    drain(stage.consumer)
    assert "health sample" in DeadLetter.objects.get().reason
    assert NodeSample.objects.get().at == 5.0 and redis().xlen(stream_key(0)) == 0


@pytest.mark.parametrize("kind", RAISED)
@pytest.mark.parametrize("place", ["reading", "storing"])
def test_whatever_an_entry_raises_costs_that_entry_alone(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, kind: type[Exception], place: str
) -> None:
    module, name = (rounds, "incoming") if place == "reading" else (commit_module.store, "write_lines")
    sound = getattr(module, name)

    def poisoned(*args: object, **named: object) -> object:
        if "poison" in repr([*args, *named.values()]):
            raise kind("poison \ud800\x00")
        return sound(*args, **named)

    monkeypatch.setattr(module, name, poisoned)
    for text in ("before", "poison", "behind"):
        spool = Spool()
        spool.begin()
        spool.logs([(1.0, text)])
        send(stage.attempt, stage.node, spool.bytes)
    drain(stage.consumer)
    assert [line["text"] for line in read_logs(stage.run.pk)["items"]] == ["before", "behind"]
    assert DeadLetter.objects.count() == 1 and redis().xlen(stream_key(0)) == 0


def test_an_entry_waits_where_the_database_cannot_work_now(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = commit_module.store.write_lines

    def away(*args: object, **named: object) -> object:
        raise OperationalError("away")

    spool = Spool()
    spool.begin()
    spool.logs([(1.0, "kept")])
    send(stage.attempt, stage.node, spool.bytes)
    with monkeypatch.context() as patch:
        patch.setattr(commit_module.store, "write_lines", away)
        assert not stage.consumer.step() and redis().xlen(stream_key(0)) == 1
    assert commit_module.store.write_lines is sound
    drain(stage.consumer)
    assert [line["text"] for line in read_logs(stage.run.pk)["items"]] == ["kept"]
    assert not DeadLetter.objects.exists()
