"""The socket of an interactive session: who gets one, what passes, and how it ends. The node is played here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis.asyncio
from channels.db import database_sync_to_async
from django.conf import settings
from django.utils import timezone

from dashboard.sockets import admission as door
from dashboard.sockets import session_socket
from runs.models import Cluster, Event, Membership, Node, Run, User
from runs.rights.access import Forbidden
from runs.values.refused import Refused
from runs.values.status import Phase, Status
from tests.cast import Cast, make_attempt, make_node, make_run
from tests.dashboard.sockets.test_consumers import ORIGIN, by_token, socket
from tests.sockets import WAIT_S, Socket
from trainyard.contract.base import encode
from trainyard.contract.seals import session_key
from trainyard.contract.session_frames import Frame, FrameLock, FrameOrder
from trainyard.contract.sessions import FrameKind, SessionEnd, SessionWish

pytestmark = [pytest.mark.django_db(transaction=True, databases="__all__"), pytest.mark.usefixtures("valkey")]


@pytest.fixture(autouse=True)
def quick_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "EVERY_S", 0.1)
    monkeypatch.setattr(session_socket, "KEEP_EVERY_S", 0.2)
    monkeypatch.setattr(session_socket, "LAST_S", 0.1)
    monkeypatch.setattr(session_socket, "ABANDONED_S", 0.1)


@pytest.fixture
def run(cast: Cast) -> Run:
    Cluster.objects.update(interactive=True)
    made = make_run(cast, status=Status.RUNNING)
    make_attempt(made, [make_node(cast.cluster, "node-a")], ranks=2, phase=Phase.RUNNING)
    return made


class PlayedNode:
    """The node's end of a session."""

    def __init__(self, node: Node, session: str) -> None:
        self._client = redis.asyncio.Redis.from_url(str(settings.REDIS_URL))
        self._keys = {way: session_key(node.pk, session, way) for way in ("up", "down")}
        self._up, self._down = FrameLock(node.key, session, "up"), FrameLock(node.key, session, "down")
        self._order = FrameOrder()
        self._number = 0

    async def send(self, kind: FrameKind, payload: bytes = b"") -> None:
        self._number += 1
        data = self._up.lock(Frame(0, self._number, kind, payload))
        await self._client.xadd(self._keys["up"], {"d": data}, id=f"{self._number}-0", nomkstream=True)

    async def receive(self) -> Frame:
        """Return the next frame that is more than a sign of life."""
        async with asyncio.timeout(WAIT_S):
            while True:
                _, data = await self._client.brpop([self._keys["down"]], timeout=5)
                frame = self._down.unlock(data)
                assert self._order.takes(frame)
                if frame.kind != FrameKind.KEEP:
                    return frame

    async def fill(self) -> None:
        """Leave more unread than the server lets wait."""
        await self._client.lpush(self._keys["down"], *[b"unread"] * (session_socket.MAX_WAITING + 1))

    async def close(self) -> None:
        await self._client.aclose()


async def connected(run: Run, user: User) -> Socket:
    header = await database_sync_to_async(by_token)(user)
    made = socket(f"/ws/runs/{run.pk}/session/", ORIGIN, header)
    assert await made.connect()
    return made


async def begun(run: Run, user: User, **wish: Any) -> tuple[Socket, PlayedNode, str]:
    made = await connected(run, user)
    await made.send(text=encode(SessionWish(**wish)))
    started = await made.receive()
    node = await Node.objects.aget(name="node-a")
    assert {**started, "session": ""} == {"type": "started", "session": "", "node": "node-a", "rank": wish["rank"]}
    return made, PlayedNode(node, started["session"]), started["session"]


async def leave(*people: Socket) -> None:
    for person in people:
        await person.leave()
    await asyncio.gather(*session_socket.concluding)


async def data_of(person: Socket) -> bytes:
    message = await person.receive_output(WAIT_S)
    return bytes(message["bytes"])


async def end_of(person: Socket) -> dict[str, Any]:
    while True:
        message = await person.receive_output(WAIT_S)
        assert message["type"] == "websocket.send", message
        if message.get("text") and (document := json.loads(message["text"]))["type"] == "ended":
            return dict(document)


async def events(run: Run) -> AsyncIterator[Event]:
    async for event in run.events.order_by("id"):
        yield event


async def test_frames_pass_both_ways_and_the_history_has_beginning_and_end(cast: Cast, run: Run) -> None:
    person, node, _ = await begun(run, cast.mate, rank=1, command=["ls", "a b"])
    await node.send(FrameKind.OUTPUT, b"\x01hello")
    assert await data_of(person) == bytes((FrameKind.OUTPUT,)) + (1).to_bytes(8) + b"\x01hello"
    await person.send(data=bytes((FrameKind.INPUT,)) + b"typed")
    frame = await node.receive()
    assert (frame.kind, frame.payload) == (FrameKind.INPUT, b"typed")
    await node.send(FrameKind.ENDED, encode(SessionEnd(code="exited", exit_code=3, bytes_out=5)).encode())
    ended = await end_of(person)
    assert (ended["code"], ended["exit_code"]) == ("exited", 3)
    found = {event.code: event async for event in events(run)}
    assert found["session-began"].sentence == "mate began the command ls 'a b' beside rank 1 on node-a."
    assert "0 bytes sent and 5 received" in found["session-ended"].sentence
    await leave(person)
    await node.close()


@pytest.mark.parametrize("who", ["viewer", "outsider", "switch"])
async def test_who_may_not_launch_here_gets_no_session_and_a_sentence(cast: Cast, run: Run, who: str) -> None:
    if who == "switch":
        await Cluster.objects.aupdate(interactive=False)
    person = await connected(run, cast.mate if who == "switch" else getattr(cast, who))
    ended = await end_of(person)
    words = {
        "viewer": "You need to be member of project default to do this.",
        "outsider": "There is no such run that you can see.",
        "switch": "Cluster local allows no interactive sessions. Staff allow them where the cluster is edited.",
    }
    assert ended["sentence"] == words[who]
    assert await person.closing_code() == (4404 if who == "outsider" else 4403)
    await leave(person)
    assert not await run.events.aexists()


async def test_a_role_that_is_taken_away_ends_the_session_at_once_on_the_node_too(cast: Cast, run: Run) -> None:
    person, node, _ = await begun(run, cast.mate, rank=0, terminal=True)
    await Membership.objects.filter(user=cast.mate).aupdate(role="viewer")
    assert (await end_of(person))["code"] == "forbidden"
    assert await person.closing_code() == 4403
    assert (await node.receive()).kind == FrameKind.END
    await leave(person)
    await node.close()


async def test_a_node_that_takes_nothing_keeps_nobody_in_who_lost_the_right(
    cast: Cast, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end waits for the node's queue, and what the node sends meanwhile is not for the person any more."""
    monkeypatch.setattr(session_socket, "SILENT_S", 2.0)
    person, node, _ = await begun(run, cast.mate, rank=0, terminal=True)
    await node.fill()
    await Membership.objects.filter(user=cast.mate).aupdate(role="viewer")
    async with asyncio.timeout(1.5):
        assert (await end_of(person))["code"] == "forbidden"
        assert await person.closing_code() == 4403
    await node.send(FrameKind.OUTPUT, b"\x01not yours")
    assert await person.receive_nothing(0.3)
    await leave(person)
    await node.close()


async def test_an_attempt_that_ends_ends_the_session_with_a_sentence(cast: Cast, run: Run) -> None:
    person, node, _ = await begun(run, cast.mate, rank=0, terminal=True)
    await run.attempts.aupdate(ended_at=timezone.now())
    assert (await end_of(person))["sentence"].startswith("The session ended with its attempt")
    await leave(person)
    await node.close()


async def test_a_terminal_is_gone_on_with_in_another_connection_from_the_frame_that_was_seen(
    cast: Cast, run: Run
) -> None:
    person, node, session = await begun(run, cast.mate, rank=0, terminal=True)
    for text in (b"\x01one", b"\x01two"):
        await node.send(FrameKind.OUTPUT, text)
        await data_of(person)
    again, same, _ = await begun(run, cast.mate, rank=0, terminal=True, session=session, since=1)
    assert (await data_of(again))[9:] == b"\x01two"
    assert (await end_of(person))["sentence"] == session_socket.WENT_ON
    assert (await node.receive()).kind == FrameKind.SIZE, "the second window may have another size"
    stranger = await connected(run, cast.owner)
    await stranger.send(text=encode(SessionWish(session=session)))
    assert (await end_of(stranger))["code"] == "session-over"
    await leave(person, again, stranger)
    await same.close()
    await node.close()


@pytest.mark.parametrize("data", [b"", bytes((FrameKind.KEEP,)), bytes((FrameKind.SIZE,)) + b"x", b"\xff"])
async def test_a_frame_that_is_none_ends_the_session(cast: Cast, run: Run, data: bytes) -> None:
    person, node, _ = await begun(run, cast.mate, rank=0, terminal=True)
    await person.send(data=data)
    assert (await end_of(person))["code"] == "bad-message"
    await leave(person)
    await node.close()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"phase": Phase.PREPARING}, "Rank 0 is preparing on node-a. Try again once it runs."),
        ({"away": True}, "Node node-a is out of contact: nothing can be started there now."),
    ],
)
def test_what_keeps_a_session_from_beginning_is_named(
    cast: Cast, run: Run, changes: dict[str, Any], words: str
) -> None:
    from runs.interactive import opening

    if "phase" in changes:
        run.attempts.get().placements.update(phase=changes["phase"])
    else:
        Node.objects.update(seen_at=None)
    with pytest.raises(Refused) as refused:
        opening.begin(actor=cast.mate, run_id=run.pk, wish=SessionWish(rank=0), address="")
    assert refused.value.sentence == words
    with pytest.raises(Forbidden):
        opening.begin(actor=cast.viewer, run_id=run.pk, wish=SessionWish(rank=0), address="")
