"""The desired state of a node: what is not as it should be is named in the log, and holds up nothing else."""

from __future__ import annotations

from typing import Any

import structlog

from trainyard.contract.base import JsonObject
from trainyard.contract.seals import down_key, new_key, seal
from workers.transport.desired_reader import DesiredReader

KEY = new_key()
GOOD: JsonObject = {"run": "r", "fence": 1, "wanted": "run", "go": None, "watermarks": {"p": 3}, "resend": []}


def sealed(key: str = KEY, **changes: Any) -> bytes:
    return seal(key, down_key("n"), {"at": 1.0, "node": "n", "attempts": {"a": GOOD}, **changes}).encode()


def test_a_document_is_returned_once() -> None:
    reader = DesiredReader(KEY, "n")
    desired = reader.read(sealed())
    assert desired is not None and desired.attempts["a"].watermarks == {"p": 3}
    assert reader.read(sealed()) is None
    assert reader.read(sealed(at=0.5)) is not None, "another time is another document, also after a clock went back"


def test_fields_of_a_newer_server_are_ignored() -> None:
    desired = DesiredReader(KEY, "n").read(sealed(colour="blue", attempts={"a": {**GOOD, "priority": 3}}))
    assert desired is not None and desired.attempts["a"].run == "r"


def test_an_attempt_of_another_shape_is_named_and_the_others_are_read() -> None:
    reader = DesiredReader(KEY, "n")
    with structlog.testing.capture_logs() as logs:
        desired = reader.read(sealed(attempts={"odd": {**GOOD, "wanted": "dance"}, "a": GOOD}))
        reader.read(sealed(at=2.0, attempts={"odd": {**GOOD, "wanted": "dance"}, "a": GOOD}))
    assert desired is not None and set(desired.attempts) == {"a"}
    assert len(logs) == 1, "it comes every second"
    assert "odd: wanted" in logs[0]["error"] and "dance" in logs[0]["error"]


def test_a_document_of_another_shape_or_seal_is_refused_and_the_next_is_read() -> None:
    reader = DesiredReader(KEY, "n")
    with structlog.testing.capture_logs() as logs:
        assert reader.read(sealed(at="now")) is None
        assert reader.read(sealed(attempts=[1])) is None
        assert reader.read(sealed(new_key())) is None
        assert reader.read(b"\xff no document") is None
    problems = [one["error"] for one in logs]
    assert problems[0].startswith("at: ") and problems[1].startswith("attempts: ") and "seal" in problems[2]
    assert reader.read(sealed()) is not None
