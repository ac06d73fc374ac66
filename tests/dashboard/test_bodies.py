"""A body that is too large is refused, however it comes, before anything keeps it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dashboard.bodies import BodyLimit, limit_of
from runs.api.points import MAX_BODY_BYTES

POINTS = "/api/v1/runs/abc/points"
PART = b" " * 1024 * 1024
NUM_PARTS = 100


class Conversation:
    """One request, sent part by part, and what was answered. The application reads all and says how much."""

    def __init__(self, num_parts: int, path: str = POINTS, **headers: bytes) -> None:
        self.num_left = num_parts
        self.num_received = 0
        self.sent: list[dict[str, Any]] = []
        pairs = [(name.replace("_", "-").encode(), value) for name, value in headers.items()]
        self.scope = {"type": "http", "path": path, "headers": pairs}

    async def application(self, scope: Any, receive: Any, send: Any) -> None:
        is_more = True
        while is_more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return  # as Django does
            self.num_received += len(message["body"])
            is_more = message["more_body"]
        await send({"type": "http.response.start", "status": 200})

    async def receive(self) -> dict[str, Any]:
        self.num_left -= 1
        return {"type": "http.request", "body": PART, "more_body": self.num_left > 0}

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    async def hold(self) -> int:
        """Return the status of the one answer."""
        await BodyLimit(self.application)(self.scope, self.receive, self.send)
        (start,) = (message for message in self.sent if message["type"] == "http.response.start")
        return int(start["status"])


async def test_a_body_within_the_limit_goes_through() -> None:
    talk = Conversation(10)
    assert await talk.hold() == 200
    assert talk.num_received == MAX_BODY_BYTES


async def test_an_announced_body_is_refused_before_the_application_hears_of_it() -> None:
    talk = Conversation(NUM_PARTS, content_length=b"%d" % (NUM_PARTS * len(PART)))
    assert await talk.hold() == 413
    assert talk.num_received == 0 and talk.num_left == 0, "read and dropped, so that the answer arrives"
    problem = json.loads(talk.sent[-1]["body"])
    assert problem["status"] == 413 and "10,485,760 bytes" in problem["detail"]


async def test_a_body_that_says_nothing_of_its_size_is_cut_at_the_limit() -> None:
    talk = Conversation(NUM_PARTS)
    assert await talk.hold() == 413
    assert talk.num_received <= MAX_BODY_BYTES and talk.num_left == 0


async def test_who_asks_first_need_not_send() -> None:
    talk = Conversation(NUM_PARTS, content_length=b"999999999", expect=b"100-continue")
    assert await talk.hold() == 413
    assert talk.num_left == NUM_PARTS


async def test_a_body_without_an_end_is_not_listened_to_for_ever() -> None:
    talk = Conversation(1_000_000)
    assert await talk.hold() == 413
    assert talk.num_left > 999_000


@pytest.mark.parametrize(
    ("path", "is_limited"), [(POINTS, True), ("/api/v1/bundles", True), ("/launch/code/", False), ("/", False)]
)
def test_every_path_of_the_api_has_a_limit(path: str, is_limited: bool) -> None:
    assert (limit_of(path) is not None) == is_limited
