"""A body that is too large, from nobody, or that does not come is refused before anything keeps it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from typing import Any

import pytest
from channels.db import database_sync_to_async
from django.conf import settings
from django.test import Client

from dashboard.http import body_limits as bodies
from dashboard.http.body_limits import DEFAULT_BYTES, BodyLimit, limit_of
from runs import actions
from runs.api.metrics.points import MAX_BODY_BYTES
from runs.models import Node
from runs.records.files import outputs
from tests.cast import Cast, make_node
from trainyard.contract.seals import http_scope, mac

POINTS = "/api/v1/runs/abc/points"
FILE = "/api/v1/node/runs/abc/fences/1/files/model.bin"
PART = b" " * 1024 * 1024
NUM_PARTS = 100

pytestmark = pytest.mark.usefixtures("transactional_db", "valkey")


class Conversation:
    """One request, sent part by part, and what was answered. The application reads all and says how much."""

    def __init__(self, num_parts: int, path: str = POINTS, method: str = "POST", **headers: bytes) -> None:
        self.num_left = num_parts
        self.num_received = 0
        self.is_reached = False
        self.pause_s = 0.0
        self.part = PART
        self.sent: list[dict[str, Any]] = []
        pairs = [(name.replace("_", "-").encode(), value) for name, value in headers.items()]
        self.scope = {"type": "http", "method": method, "path": path, "headers": pairs}

    async def application(self, scope: Any, receive: Any, send: Any) -> None:
        self.is_reached = is_more = True
        while is_more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return  # as Django does
            self.num_received += len(message["body"])
            is_more = message["more_body"]
        await send({"type": "http.response.start", "status": 200})

    async def receive(self) -> dict[str, Any]:
        await asyncio.sleep(self.pause_s)
        self.num_left -= 1
        return {"type": "http.request", "body": self.part, "more_body": self.num_left > 0}

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    async def hold(self) -> int:
        """Return the status of the one answer."""
        await BodyLimit(self.application)(self.scope, self.receive, self.send)
        (start,) = (message for message in self.sent if message["type"] == "http.response.start")
        return int(start["status"])


@pytest.fixture
def token(cast: Cast) -> bytes:
    return f"Bearer {actions.create_token(actor=cast.mate, name='x')[1]}".encode()


async def test_a_body_within_the_limit_goes_through(token: bytes) -> None:
    talk = Conversation(10, authorization=token)
    assert await talk.hold() == 200
    assert talk.num_received == MAX_BODY_BYTES


async def test_an_announced_body_is_refused_before_the_application_hears_of_it(token: bytes) -> None:
    talk = Conversation(NUM_PARTS // 2, content_length=b"%d" % (NUM_PARTS // 2 * len(PART)), authorization=token)
    assert await talk.hold() == 413
    assert not talk.is_reached and talk.num_left == 0, "read and dropped, so that the answer arrives"
    problem = json.loads(talk.sent[-1]["body"])
    assert problem["status"] == 413 and "10,485,760 bytes" in problem["detail"]


async def test_a_body_that_says_nothing_of_its_size_is_cut_at_the_limit(token: bytes) -> None:
    talk = Conversation(NUM_PARTS // 2, authorization=token)
    assert await talk.hold() == 413
    assert talk.num_received <= MAX_BODY_BYTES and talk.num_left == 0


async def test_who_asks_first_need_not_send(token: bytes) -> None:
    talk = Conversation(NUM_PARTS, content_length=b"999999999", expect=b"100-continue", authorization=token)
    assert await talk.hold() == 413
    assert talk.num_left == NUM_PARTS


async def test_a_body_without_an_end_is_not_listened_to_for_ever(token: bytes) -> None:
    talk = Conversation(1_000_000, authorization=token)
    assert await talk.hold() == 413
    assert talk.num_left > 999_000


@pytest.mark.parametrize("path", ["/", "/sign-in/", "/admin/login/", "/nothing/here/", "/api/v1/nodes/join"])
async def test_nobody_sends_more_than_a_little_anywhere(path: str) -> None:
    announced = Conversation(50, path, content_length=b"%d" % (50 * len(PART)))
    assert await announced.hold() in (401, 413) and not announced.is_reached
    unannounced = Conversation(50, path)
    assert await unannounced.hold() in (401, 413) and unannounced.num_received <= DEFAULT_BYTES


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", POINTS),
        ("POST", "/api/v1/runs/abc/frames"),
        ("PUT", "/api/v1/runs/local/abc"),
        ("POST", "/api/v1/bundles"),
        ("POST", "/api/v1/runs"),
        ("POST", "/launch/"),
        ("POST", "/launch/code/"),
        ("POST", "/admin/runs/user/add/"),
        ("PUT", FILE),
    ],
)
async def test_where_more_is_read_it_is_read_of_somebody(method: str, path: str) -> None:
    """By length or without one, with no credential or one that opens nothing: 401, and nothing was kept."""
    for headers in (
        {"content_length": b"%d" % (DEFAULT_BYTES + 1)},
        {},
        {"authorization": b"Bearer ty_nothing"},
        {"cookie": f"{settings.SESSION_COOKIE_NAME}=nothing".encode()},
        {"x_trainyard_node": b"nobody", "x_trainyard_seal": b"1.aa", "x_trainyard_digest": b"a" * 64},
    ):
        talk = Conversation(1, path, method, **headers)
        assert await talk.hold() == 401 and not talk.is_reached, headers
        assert dict(talk.sent[0]["headers"])[b"connection"] == b"close"


async def test_a_small_body_of_nobody_is_the_views_to_refuse() -> None:
    talk = Conversation(1, content_length=b"100")
    talk.part = b" " * 100
    assert await talk.hold() == 200


async def test_a_session_may_send_its_code(cast: Cast) -> None:
    client = Client()
    await database_sync_to_async(client.force_login)(cast.mate)
    cookie = f"theme=dark; {settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
    assert await Conversation(5, "/launch/code/", cookie=cookie.encode()).hold() == 200


async def test_a_node_shows_whose_a_file_is_before_it_is_read(cast: Cast) -> None:
    node = await database_sync_to_async(make_node)(cast.cluster)
    digest = hashlib.sha256(PART).hexdigest()
    assert await Conversation(1, FILE, "PUT", **sealed(node, FILE, digest)).hold() == 200
    for wrong in (sealed(node, FILE + "2", digest), {**sealed(node, FILE, digest), "x_trainyard_digest": b"b" * 64}):
        talk = Conversation(1, FILE, "PUT", **wrong)
        assert await talk.hold() == 401 and not talk.is_reached


def sealed(node: Node, path: str, digest: str) -> dict[str, bytes]:
    at = int(time.time())
    seal = mac(node.key, http_scope("PUT", path, at), digest.encode())
    pairs = {"node": node.pk, "seal": f"{at}.{seal}", "digest": digest}
    return {f"x_trainyard_{name}": value.encode() for name, value in pairs.items()}


async def test_a_body_that_stands_still_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "STILL_S", 0.05)
    talk = Conversation(3, "/sign-in/")
    talk.part, talk.pause_s = b"u", 5.0
    assert await talk.hold() == 408


async def test_a_body_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "FIRST_S", 0.3)
    talk = Conversation(1000, "/sign-in/")
    talk.part, talk.pause_s = b"u", 0.05
    assert await talk.hold() == 408
    assert talk.num_left > 900


async def test_who_has_sent_all_is_waited_for_as_long_as_the_answer_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "STILL_S", 0.05)
    asked: list[str] = []

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        asked.append((await receive())["type"])
        talk.pause_s = 0.2
        asked.append((await receive())["type"])
        await send({"type": "http.response.start", "status": 200})

    talk = Conversation(1, "/sign-in/", content_length=b"1")
    talk.part = b"u"
    await BodyLimit(slow)(talk.scope, talk.receive, talk.send)
    assert asked == ["http.request", "http.request"] and talk.sent[0]["status"] == 200


@pytest.mark.parametrize(
    ("method", "path", "num_bytes"),
    [
        ("POST", POINTS, MAX_BODY_BYTES),
        ("PUT", FILE, outputs.MAX_FILE_BYTES),
        ("PUT", "/api/v1/runs/abc/files/weights/model.pt", outputs.MAX_FILE_BYTES),
        ("PATCH", "/api/v1/runs/abc", bodies.DOCUMENT_BYTES),
        ("GET", "/api/v1/bundles", None),
        ("POST", "/api/v1/node/gone-runs", None),
        ("POST", "/api/v1/nodes/join", None),
        ("POST", "/account/password/", None),
        ("POST", "/", None),
    ],
)
def test_each_larger_limit_is_for_the_routes_that_need_it(method: str, path: str, num_bytes: int | None) -> None:
    found = limit_of(method, path)
    assert (found.num_bytes if found else None) == num_bytes
