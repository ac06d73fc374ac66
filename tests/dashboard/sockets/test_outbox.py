"""What one socket has still to be told, however slowly it reads."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest

from dashboard.sockets import feeds as module
from dashboard.sockets.feeds import AGAIN, MAX_HINTS, MAX_TEXTS, Outbox
from runs.records.deltas.delta import Delta, EncodedDelta, encode


def a_delta(start: int, *, lines: int = 0) -> EncodedDelta:
    series = [{"name": "loss", "labels": {}, "attempt": 1, "step": [start], "time": [1.0], "value": [2.0]}]
    logs = [{"rank": 0, "stream": "stdout", "time": 1.0, "text": "x"}] * lines
    return encode(Delta(start, start + 1, series, logs))


async def taken(outbox: Outbox) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(await asyncio.wait_for(outbox.take(), 5))
    return message


async def test_what_is_put_in_comes_out_in_its_order() -> None:
    outbox = Outbox()
    outbox.begin(4)
    waiting = asyncio.create_task(taken(outbox))
    await asyncio.sleep(0)
    outbox.put(a_delta(4, lines=1))
    outbox.hint('{"type":"run"}')
    assert [(await waiting)["type"], (await taken(outbox))["type"], (await taken(outbox))["type"]] == [
        "logs",
        "points",
        "run",
    ]
    assert outbox.is_empty and outbox.cursor == 5


async def test_what_a_slow_reader_missed_is_one_refetch_that_grows_until_it_is_read() -> None:
    outbox = Outbox()
    outbox.begin(0)
    outbox.hint('{"type":"run"}')
    outbox.put(a_delta(0))
    assert (await taken(outbox))["type"] == "run"
    assert (await taken(outbox))["cursor"] == 1
    for start in range(1, MAX_TEXTS + 11):
        outbox.put(a_delta(start))
    assert await taken(outbox) == {"type": "refetch", "from": 1, "cursor": MAX_TEXTS + 11, "steps": [1, MAX_TEXTS + 10]}
    assert outbox.is_empty
    outbox.put(a_delta(MAX_TEXTS + 11))
    assert (await taken(outbox))["from"] == MAX_TEXTS + 11


async def test_the_limit_counts_characters_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CHARS", 500)
    outbox = Outbox()
    outbox.begin(0)
    outbox.put(a_delta(0, lines=50))  # alone it is sent, whatever its size
    assert (await taken(outbox))["type"] == "logs"
    outbox.put(a_delta(1))
    outbox.put(a_delta(2, lines=50))
    assert await taken(outbox) == {"type": "refetch", "from": 0, "cursor": 3, "steps": [0, 2]}


async def test_where_the_steps_are_not_known_the_refetch_names_none() -> None:
    outbox = Outbox()
    outbox.begin(0)
    for start in range(MAX_TEXTS):
        outbox.put(a_delta(start))
    outbox.put(encode(Delta(MAX_TEXTS, MAX_TEXTS + 1, refetch=True)))
    assert (await taken(outbox))["steps"] is None


async def test_a_hint_waits_once_and_too_many_are_one() -> None:
    outbox = Outbox()
    for number in range(MAX_HINTS):
        outbox.hint(f"hint {number}")
        outbox.hint("hint 0")
    for _ in range(3):
        outbox.hint("one more")
    assert await outbox.take() == AGAIN
    assert outbox.is_empty
    outbox.hint("hint 0")
    assert await outbox.take() == "hint 0"


async def test_whatever_the_pace_the_chain_of_cursors_has_no_hole() -> None:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    draw, outbox, told, put, refetches = random.Random(seed), Outbox(), 0, 0, 0
    outbox.begin(0)
    for _ in range(5_000):
        if draw.random() < 0.55:
            outbox.put(a_delta(put, lines=draw.randrange(2)))
            put += 1
        elif not outbox.is_empty:
            message = await taken(outbox)
            assert message["from"] == told <= message["cursor"]
            refetches += message["type"] == "refetch"
            told = message["cursor"]
        assert outbox._num_chars <= module.MAX_CHARS and len(outbox._queue) <= MAX_TEXTS + 1
    while not outbox.is_empty:
        told = (await taken(outbox))["cursor"]
    assert told == put
    assert refetches > 0
