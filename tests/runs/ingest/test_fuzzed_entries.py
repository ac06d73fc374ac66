"""Whatever a node appends to the stream, the entry behind it is stored, and nothing stays in the stream."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from hypothesis import strategies as st

from runs.records.metrics.models import NodeSample
from runs.serving.transport import redis
from tests.cast import Cast, make_node
from tests.fuzzing import changed, fuzz, mutated
from tests.media import BEEP
from tests.runs.ingest.conftest import Stage, drain
from tests.spools import Spool, packed, send, send_health, some_points
from trainyard.contract.seals import stream_key
from trainyard.spooling import frames

pytestmark = [pytest.mark.django_db(transaction=True, databases="__all__"), pytest.mark.timeout(7200)]

HEALTH = {
    "at": 5.0, "cpu_percent": 1.0, "load": 0.5, "memory_bytes": 1, "memory_used_bytes": 1, "disk_bytes": 2,
    "gpus": [{"index": 0, "utilization_percent": 3.0, "memory_bytes": 4, "temperature_c": 50.0}],
}  # fmt: skip
AT_ONCE = 8  # messages in front of the one that must come through: a look costs more than a message
HISTOGRAM = struct.pack("<3d", 0.0, 1.0, 5.0)
RECORDS: list[tuple[str, dict[str, Any]]] = [
    ("begin", {"rank": 0, "node": "node-a", "pid": 1, "at": 0.0, "role": "rank"}),
    ("points", {"g": [packed("train/loss", {"a": "b"}, some_points(1, 3))]}),
    ("logs", {"rank": 0, "stream": "stdout", "lines": [[1.0, "hello"]]}),
    ("lost", {"counts": {"lost_points": 3}}),
    ("checkpoint", {"state": "saved", "step": 3, "fence": 1, "at": 1.0, "bytes": 10, "num_files": 1}),
    ("facts", {"name": "trace", "data": {"id": "a", "file": "b", "more": [1, {"x": 2.0}]}, "at": 1.0}),
    ("media", {"name": "h", "labels": {}, "kind": "histogram", "step": 1, "at": 1.0,
               "meta": {"bins": 1, "count": 5, "num_not_finite": 0}, "data": HISTOGRAM}),
    ("media", {"name": "s", "labels": {}, "kind": "audio", "step": 1, "at": 1.0, "meta": {"caption": "x"},
               "data": BEEP[:300]}),
    ("description", {"config": {"lr": 0.1, "m": {"w": 8}}, "tags": ["a"], "notes": "why", "group": "g",
                     "job_type": "train", "metrics": {"loss": {"x": "epoch", "goal": "min"}}}),
    ("damaged", {"why": "a disk"}),
    ("end", {"at": 0.0, "reason": "finish"}),
]  # fmt: skip


@pytest.fixture
def goes_on(stage: Stage, cast: Cast) -> Callable[[], None]:
    """Let ingest work; then what another node has sent meanwhile is stored, and the stream is empty."""
    other, numbers = make_node(cast.cluster, "node-z"), count(1)

    def check() -> None:
        send_health(other, {"at": float(at := next(numbers))})
        drain(stage.consumer)
        assert NodeSample.objects.filter(node_id=other.pk, at=at).exists()
        assert redis().xlen(stream_key(0)) == 0

    return check


def test_frames_of_any_bytes_keep_nothing_waiting(stage: Stage, goes_on: Callable[[], None]) -> None:
    spool = Spool()
    for kind, payload in RECORDS:
        spool.put(kind, payload)

    def check(some: list[bytes]) -> None:
        for data in some:
            send(stage.attempt, stage.node, data)
        goes_on()

    sealed = mutated(*spool.frames, spool.bytes)
    framed = sealed.map(lambda body: frames.framed(body[: frames.MAX_FRAME_BYTES]))
    fuzz(sealed | framed, check, "frames", at_once=AT_ONCE)


def test_records_with_odd_values_keep_nothing_waiting(stage: Stage, goes_on: Callable[[], None]) -> None:
    def check(some: list[tuple[str, Any]]) -> None:
        for kind, payload in some:
            spool = Spool()
            spool.begin()
            with suppress(ValueError, OverflowError, UnicodeError):  # MessagePack has no such number or text
                spool.put(kind, payload if isinstance(payload, dict) else {"g": payload})
            spool.logs([(1.0, "behind")])
            send(stage.attempt, stage.node, spool.bytes)
        goes_on()

    one_of = [changed(payload).map(lambda found, kind=kind: (kind, found)) for kind, payload in RECORDS]
    fuzz(st.one_of(one_of), check, "records", at_once=AT_ONCE)


def test_samples_of_any_bytes_keep_nothing_waiting(stage: Stage, goes_on: Callable[[], None]) -> None:
    def check(some: list[bytes]) -> None:
        for data in some:
            send_health(stage.node, data)
        goes_on()

    odd = changed(HEALTH).map(lambda found: json.dumps(found).encode())
    fuzz(odd | mutated(json.dumps(HEALTH).encode()), check, "health samples", at_once=AT_ONCE)


def test_entries_of_any_fields_keep_nothing_waiting(stage: Stage, goes_on: Callable[[], None]) -> None:
    valid = {"n": stage.node.pk, "r": stage.run.pk, "a": stage.attempt.pk, "f": "1", "d": "x", "m": "00" * 32}
    names = st.sampled_from([*valid, "", "other"]) | st.binary(max_size=3)
    values = st.sampled_from([*valid.values(), "", "-1", "9" * 5000, str(2**31)]) | st.binary(max_size=40)

    def check(entries: list[dict[Any, Any]]) -> None:
        for fields in entries:
            redis().xadd(stream_key(0), fields)
        goes_on()

    some = st.dictionaries(names, values, min_size=1, max_size=8)
    fuzz(some | some.map(lambda found: {**valid, **found}), check, "entries", at_once=AT_ONCE)
