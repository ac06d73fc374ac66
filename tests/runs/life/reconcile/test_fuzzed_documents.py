"""Whatever a node writes as its status or as the report of an attempt, control follows the other nodes' runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import strategies as st

from runs.life import reconcile
from runs.serving.transport import redis
from tests.fuzzing import changed, fuzz, mutated
from tests.runs.life.reconcile.conftest import Yard
from tests.voices import rank
from trainyard.contract import seals

pytestmark = pytest.mark.timeout(7200)

STALL = {
    "since": 1.0, "limit_s": 2.0, "step": 3, "phase": "forward", "line": "a.py line 1", "entered": {"0": 1},
    "collective": {"operation": "all_reduce", "ranks": [0, 1], "sequence": 1}, "stack": "x",
}  # fmt: skip
MATCH = {"label": "a", "action": "label", "rank": 0, "stream": "stdout", "line": "x", "at": 1.0, "count": 1}
CHANGES: list[dict[str, Any]] = [
    {"phase": "ready", "port": 29511, "ports": [1], "address": "127.0.0.1"},
    {"phase": "running", "ranks": [rank(0, stall=STALL)], "matches": [MATCH], "producers": {"a": 1}},
    {"phase": "ended", "ranks": [rank(0, 5.0, exit_code=1, error={"type": "E", "message": "m", "traceback": "t"})],
     "reason": {"code": "rank_failed", "sentence": "It failed.", "at": 5.0,
                "evidence": {"node": "a", "rank": 0, "exit_code": 1, "stderr": ["x"], "disk_full": False}}},
]  # fmt: skip


def test_any_status_of_a_node_keeps_no_other_waiting(yard: Yard) -> None:
    yard.start()
    hostile, other = (voice.node for voice in yard.voices)
    key = seals.up_key(hostile.pk)
    yard.voices[0].self_check = {"at": 1.0, "home": {"path": "/a", "free_bytes": 1}, "clock_ahead_s": 0.1, "peers": {}}
    yard.voices[0].up(yard.now)
    valid = seals.unseal(hostile.key, key, redis().get(key) or b"", dict)  # type: ignore[type-var]

    def check(text: bytes) -> None:
        redis().set(key, text)
        yard.later(1)
        yard.voices[1].up(yard.now)
        assert reconcile.tick(yard.now)
        other.refresh_from_db()
        assert other.is_in_contact(yard.now), "the other node's status was not read"

    fuzz(_sealed(hostile.key, key, changed(valid), valid), check, "statuses")


def test_any_report_of_a_node_keeps_no_other_waiting(yard: Yard) -> None:
    yard.start()
    hostile = yard.placements[0]
    key = seals.report_key(hostile.node_id, hostile.attempt_id)
    scope = seals.report_scope(hostile.node_id, hostile.attempt.run_id, hostile.attempt.fence)
    yard.say("running")
    valid = seals.unseal(hostile.node.key, scope, redis().get(key) or b"", dict)  # type: ignore[type-var]

    def check(text: bytes) -> None:
        redis().set(key, text)
        yard.later(1)
        for voice in yard.voices:
            voice.up(yard.now)
        assert reconcile.tick(yard.now)
        for voice in yard.voices:
            voice.node.refresh_from_db()
            assert voice.node.is_in_contact(yard.now)
        assert yard.voices[1].heard()["at"] == pytest.approx(yard.now.timestamp(), abs=1), "nothing was written for it"

    odd = st.one_of([changed({**valid, **one}) for one in CHANGES])
    fuzz(_sealed(hostile.node.key, scope, odd, valid), check, "reports")


def _sealed(key: str, scope: str, odd: st.SearchStrategy[Any], valid: Any) -> st.SearchStrategy[bytes]:
    """Return sealed documents, sealed bytes that are none, and bytes that nobody sealed."""
    body = odd.map(lambda found: json.dumps(found).encode()) | mutated(json.dumps(valid).encode())
    sealed = body.map(lambda data: seals.mac(key, scope, data).encode() + b"." + data)
    return sealed | mutated(seals.seal(key, scope, valid).encode())
