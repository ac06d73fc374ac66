"""Whatever lies where a node reads the server's documents and commands, the node refuses it and goes on."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.fuzzing import changed, fuzz, mutated
from trainyard.contract.base import BadMessage, to_builtins
from trainyard.contract.desired import Desired, DesiredAttempt
from trainyard.contract.locks import lock, unlock
from trainyard.contract.orders import Go, Locked, Order
from trainyard.contract.seals import NUDGE, down_key, mac, node_scope, seal, unseal
from workers.transport.broker import MessageGate, rebuilt_message
from workers.transport.desired_reader import DesiredReader

pytestmark = pytest.mark.timeout(7200)

KEY = "00" * 32
DESIRED: Any = to_builtins(
    Desired(1.0, "n", attempts={"a": DesiredAttempt(run="r", fence=1, wanted="run", go=Go("127.0.0.1", 1))})
)


def _sealed(scope: str, document: Any) -> st.SearchStrategy[bytes]:
    body = changed(document).map(lambda found: json.dumps(found).encode()) | mutated(json.dumps(document).encode())
    return body.map(lambda data: mac(KEY, scope, data).encode() + b"." + data) | mutated(
        seal(KEY, scope, document).encode()
    )


def test_any_desired_state_is_read_or_refused() -> None:
    reader = DesiredReader(KEY, "n")
    fuzz(_sealed(down_key("n"), DESIRED), reader.read, "desired states")
    document = {**DESIRED, "at": 2.0}
    assert reader.read(seal(KEY, down_key("n"), document).encode()) is not None


def test_any_message_passes_the_gate_or_is_dropped() -> None:
    def opens(task: str, sealed: str) -> bool:
        try:
            return bool(unseal(KEY, task, sealed, Desired))
        except BadMessage:
            return False

    gate = MessageGate(frozenset({NUDGE}), opens)
    valid = rebuilt_message("q", NUDGE, seal(KEY, NUDGE, DESIRED))
    odd = changed(json.loads(valid)).map(lambda found: json.dumps(found).encode())
    fuzz(odd | mutated(valid), lambda raw: gate.filtered("q", raw), "messages")
    assert gate.filtered("q", valid) is not None


def test_any_order_opens_or_is_refused() -> None:
    valid = lock(KEY, node_scope("order", "n"), Order(attempt="a", run="r", fence=1))

    def check(text: bytes) -> None:
        with contextlib.suppress(BadMessage):
            unlock(KEY, node_scope("order", "n"), Locked(text.decode("latin-1")), Order)

    fuzz(mutated(valid.locked.encode()), check, "orders")
