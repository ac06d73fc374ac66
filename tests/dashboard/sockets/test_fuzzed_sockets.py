"""What a browser may send over a socket, in the handshake and behind it: the socket stays or closes with a code, and
the next one opens."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from channels.db import database_sync_to_async
from hypothesis import strategies as st

from dashboard.sockets import session_socket
from runs.models import Run
from tests.cast import Cast
from tests.dashboard.sockets.test_consumers import ORIGIN, by_token, socket
from tests.dashboard.sockets.test_session_socket import quick_checks, run
from tests.fuzzed_requests import texts, with_query
from tests.fuzzing import changed, fuzz, mutated
from tests.sockets import WAIT_S
from trainyard.contract.base import encode, to_builtins
from trainyard.contract.sessions import FrameKind, SessionWish

__all__ = ["quick_checks", "run"]
pytestmark = [
    pytest.mark.django_db(transaction=True, databases="__all__"),
    pytest.mark.usefixtures("valkey"),
    pytest.mark.timeout(7200),
]
WISHES = [SessionWish(rank=0, command=["ls"]), SessionWish(rank=1, terminal=True, rows=24, columns=80)]
FRAMES = [bytes((kind,)) + bytes(size) for kind in FrameKind for size in (0, 4, 8, 20)]
names = st.sampled_from([b"authorization", b"cookie", b"origin", b"host", b"user-agent", b"x-forwarded-for"])
handshakes = st.lists(st.tuples(names, st.binary(max_size=40)), max_size=2)


def test_no_frame_and_no_handshake_ends_more_than_its_socket(cast: Cast, run: Run) -> None:
    bearer = by_token(cast.mate)
    paths = ["/ws/overview/", f"/ws/runs/{run.pk}/", f"/ws/runs/{run.pk}/session/", "/ws/runs/nosuch/", "/ws/%00/", "/"]
    wishes = st.sampled_from([to_builtins(one) for one in WISHES]).flatmap(changed).map(json.dumps)
    frames = mutated(*FRAMES) | st.sampled_from(FRAMES)
    messages = st.one_of(
        wishes, st.sampled_from([encode(one) for one in WISHES]), texts, frames, mutated(b'{"rank":0}').map(in_latin)
    )
    paths_asked = st.builds(with_query, st.sampled_from(paths), st.dictionaries(st.just("since"), texts, max_size=1))

    async def visit(path: str, more: list[tuple[bytes, bytes]], sent: list[str | bytes]) -> list[Any]:
        person = socket(path, *(more or [ORIGIN, bearer]))
        accepted = await person.connect()
        for one in sent if accepted else ():
            await person.send(**({"text": one} if isinstance(one, str) else {"data": one}))
        await asyncio.sleep(0)
        seen = []
        while not await person.receive_nothing(0.01, 0.005):
            seen.append(await person.receive_output(WAIT_S))
        if not person.future.done():
            await person.leave()
        await asyncio.gather(*session_socket.concluding)
        return [accepted, *seen]

    with asyncio.Runner() as runner:

        def check(example: tuple[str, list[tuple[bytes, bytes]], list[str | bytes]]) -> None:
            runner.run(visit(*example))
            check.number += 1  # type: ignore[attr-defined]
            if check.number % 100 == 1:  # type: ignore[attr-defined]
                assert runner.run(visit("/ws/overview/", [], []))[0], "a good socket does not open any more"

        check.number = 0  # type: ignore[attr-defined]
        fuzz(st.tuples(paths_asked, handshakes | st.just([]), st.lists(messages, max_size=5)), check, "sockets")
        runner.run(database_sync_to_async(lambda: None)())


def in_latin(data: bytes) -> str:
    return data.decode("latin1")
