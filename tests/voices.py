"""Nodes that say what a test wants: hand-written documents, sealed as a node would, in a real Valkey."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from runs.models import Node, Placement
from runs.serving.transport import redis
from trainyard.contract import seals
from trainyard.contract.base import JsonObject, convert, to_builtins
from trainyard.contract.desired import Desired
from trainyard.contract.locks import unlock
from trainyard.contract.orders import Order
from trainyard.contract.reports import AttemptReport


class Voice:
    """One node's voice. Attempts that it reports are listed in its up document until it forgets them."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.listed: dict[str, dict[str, Any]] = {}
        self.inspecting: list[str] = []
        self.troubles: dict[str, str] = {}
        self.asked: dict[str, int] = {}  # the number of --slots, where it was started with one
        self.self_check: dict[str, Any] | None = None  # None: of a version that does not check itself
        self.memory: dict[str, int] = {}  # bytes of states, by run
        self.is_leaving = False

    def up(self, now: datetime) -> None:
        """What the node worker says every second."""
        key = seals.up_key(self.node.pk)
        document = {
            "at": now.timestamp(),
            "node": self.node.pk,
            "name": self.node.name,
            "version": "0.1.0",
            "address": "127.0.0.1",
            "pid": 1,
            "inventory": {"cpu": {"count": 2}, "gpus": [], **self.asked},
            "health": {"cpu_percent": 3.0},
            "attempts": self.listed,
            "troubles": self.troubles,
            "inspecting": self.inspecting,
            **({} if self.self_check is None else {"self_check": self.self_check}),
            "memory": {"limit_bytes": 1 << 30, "runs": self.memory},
            "is_leaving": self.is_leaving,
        }
        redis().set(key, seals.seal(self.node.key, key, document))

    def report(
        self, placement: Placement, phase: str, now: datetime, *, fence: int | None = None, **changes: Any
    ) -> None:
        """What the attempt's supervisor says."""
        attempt = placement.attempt
        fence = attempt.fence if fence is None else fence
        self.listed[attempt.pk] = {"run": attempt.run_id, "fence": fence, "phase": phase}
        document = {
            "at": now.timestamp(),
            "attempt": attempt.pk,
            "run": attempt.run_id,
            "fence": fence,
            "node": self.node.pk,
            "phase": phase,
            "address": "127.0.0.1",
            "port": 29511 if phase == "ready" else None,
            "supervisor_pid": 1,
            "reason": None,
            "ranks": [],
            "producers": {},
            **changes,
        }
        scope = seals.report_scope(self.node.pk, attempt.run_id, fence)
        redis().set(seals.report_key(self.node.pk, attempt.pk), seals.seal(self.node.key, scope, document))
        self.up(now)

    def forget(self, placement: Placement) -> None:
        """The node has no folder of the attempt any more."""
        self.listed.pop(placement.attempt_id, None)
        redis().delete(seals.report_key(self.node.pk, placement.attempt_id))

    def heard(self) -> dict[str, Any]:
        """What the server wants of this node: its down document, opened."""
        key = seals.down_key(self.node.pk)
        text = redis().get(key)
        assert isinstance(text, bytes), "nothing was written for this node"
        desired = seals.unseal(self.node.key, key, text, Desired)
        document: JsonObject = to_builtins(desired)
        for attempt, entry in desired.attempts.items():
            if entry.order is not None:
                order = unlock(self.node.key, seals.node_scope("order", self.node.pk), entry.order, Order)
                document["attempts"][attempt]["order"] = to_builtins(order)
        return document


def rank(number: int, ended_at: float | None = None, **changes: Any) -> dict[str, Any]:
    """A rank of a report: running, or ended with exit code 0 unless told otherwise."""
    ending = {"ended_at": ended_at, "exit_code": None if ended_at is None else 0, "signal": None, "error": None}
    return {"rank": number, "pid": 100 + number, "started_at": 1.0, **ending, **changes}


def report_of(**fields: Any) -> AttemptReport:
    """A report with these fields; the others are of no matter to the test."""
    return convert(
        {"at": 0.0, "attempt": "a", "run": "r", "fence": 1, "node": "n", "phase": "running", **fields}, AttemptReport
    )
