"""Frames of a node into the tunnel of an app: whatever they hold, the tunnel goes on or closes with a sentence."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from hypothesis import strategies as st

from dashboard.proxy.tunnel import BUFFER_BYTES, CHANNEL, NUMBER, Channel, Tunnel, TunnelClosed
from dashboard.sockets.session_socket import SessionLink
from runs.interactive.app_tickets import AppPass
from tests.fuzzing import fuzz, mutated
from trainyard.contract.base import encode
from trainyard.contract.seals import BadSeal
from trainyard.contract.session_frames import Frame, FrameLock
from trainyard.contract.sessions import FRAME_BYTES, WINDOW_BYTES, FrameKind, SessionEnd

pytestmark = pytest.mark.timeout(7200)

Frames = list[tuple[FrameKind, bytes]]


class PlayedLink:
    """What a node sends, opened, in place of what Valkey would bring."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames

    async def frames(self, since: int = 0) -> AsyncIterator[Frame]:
        for number, (kind, payload) in enumerate(self._frames, 1):
            yield Frame(0, number, kind, payload)

    async def send(self, kind: FrameKind, payload: bytes = b"") -> None:
        pass

    async def close(self) -> None:
        pass


class PlayedTunnel(Tunnel):
    async def _record(self, link: SessionLink, end: SessionEnd) -> None:
        self._is_recorded = True
        self.finish(TunnelClosed(502, end.sentence))


async def received(frames: Frames) -> tuple[Tunnel, Channel]:
    """Return a tunnel with one open connection that has received these frames and read none of them."""
    tunnel = PlayedTunnel(AppPass(run="run", rank=0, port=6006, user=1, secret="secret", is_token=False))
    link = cast(SessionLink, PlayedLink(frames))
    tunnel._link, tunnel._is_recorded = link, True
    channel = await tunnel.connect()
    await asyncio.wait_for(tunnel._guarded(tunnel._receive, link), 10)
    await asyncio.sleep(0)
    return tunnel, channel


@pytest.mark.parametrize(
    "frame",
    [
        (FrameKind.CREDIT, b""),
        (FrameKind.CREDIT, b"123456789"),
        (FrameKind.DATA, b"\0"),
        (FrameKind.CLOSE, b""),
        (FrameKind.ENDED, b"[" * 100_000),
    ],
)
async def test_a_frame_that_is_none_closes_the_tunnel_with_a_sentence(frame: tuple[FrameKind, bytes]) -> None:
    tunnel, channel = await received([frame, (FrameKind.DATA, CHANNEL.pack(1) + b"behind")])
    assert tunnel.closed is not None and tunnel.closed.status == 502 and tunnel.closed.sentence
    with pytest.raises(type(tunnel.closed)):
        await channel.read()


async def test_a_node_that_does_not_wait_for_its_window_is_cut_off() -> None:
    part = (FrameKind.DATA, CHANNEL.pack(1) + bytes(FRAME_BYTES))
    tunnel, channel = await received([part] * (4 * BUFFER_BYTES // FRAME_BYTES))
    assert tunnel.closed is not None
    assert sum(map(len, channel._parts)) <= BUFFER_BYTES + 2 * WINDOW_BYTES


async def test_a_node_cannot_credit_more_than_it_was_sent() -> None:
    tunnel, _ = await received([(FrameKind.CREDIT, NUMBER.pack(2**64 - 1))])
    assert tunnel.closed is None and tunnel._passed == 0


def test_frames_of_any_bytes_end_no_task() -> None:
    kinds = st.sampled_from(FrameKind)
    payloads = mutated(NUMBER.pack(7), CHANNEL.pack(1) + b"data", encode(SessionEnd(code="exited")).encode())

    def check(frames: Frames) -> None:
        tunnel, _ = asyncio.run(received(frames))
        assert tunnel.closed is None or tunnel.closed.sentence is not None

    fuzz(st.lists(st.tuples(kinds, payloads), max_size=6), check, "frames of a tunnel")


def test_bytes_that_are_no_frame_raise_one_thing() -> None:
    lock = FrameLock("00" * 32, "s", "up")
    valid: list[Any] = [lock.lock(Frame(0, number, kind, b"data")) for number, kind in enumerate(FrameKind, 1)]

    def check(data: bytes) -> None:
        with contextlib.suppress(BadSeal):
            lock.unlock(data)

    fuzz(mutated(*valid), check, "locked frames")
