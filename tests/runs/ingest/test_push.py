"""What the browsers get of a stream of batches: heard on the channel layer itself."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
import pytest
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer

from runs.ingest.commit import Committed
from runs.ingest.push import EVERY_REFETCH_S, Push, push_now
from runs.records.deltas.delta import MAX_POINTS
from runs.records.metrics.codec import Columns
from runs.records.points.store import SeriesPiece, StreamLines
from runs.serving.broadcast import OVERVIEW_GROUP, run_group

pytestmark = pytest.mark.usefixtures("valkey")


def batch(start: int, *, cursor: int = 0, size: int = 1, lines: int = 0) -> Committed:
    steps = np.arange(start, start + size, dtype=np.int64)
    piece = SeriesPiece("p" * 32, start + 1, "loss", {}, Columns(steps, steps + 0.5, steps + 0.0))
    parts = [StreamLines(0, "stdout", [(1.0, "x")] * lines)] if lines else []
    return Committed("run1", 1, start, cursor or start + 1, [piece], parts)


class Ear:
    def __init__(self, group: str) -> None:
        self.layer = get_channel_layer()
        self.group = group

    async def __aenter__(self) -> Ear:
        self.channel = await self.layer.new_channel()
        await self.layer.group_add(self.group, self.channel)
        return self

    async def __aexit__(self, *reason: object) -> None:
        await self.layer.group_discard(self.group, self.channel)

    async def next(self) -> dict[str, Any]:
        event = await asyncio.wait_for(self.layer.receive(self.channel), 10)
        message: dict[str, Any] = event["message"]
        return message


def messages(batch: dict[str, Any]) -> list[dict[str, Any]]:
    """What a browser gets of a batch."""
    return [json.loads(text) for text in batch["texts"]]


async def test_what_was_told_of_checkpoints_makes_the_run_s_pages_look_again() -> None:
    push = Push()
    async with Ear(run_group("run1")) as ear:
        push.add(Committed("run1", 1, 0, 1, has_checkpoints=True))
        push.add(Committed("run1", 1, 1, 2))
        await sync_to_async(push.flush)(100.0)
        assert await ear.next() == {"type": "run"}
        assert (await ear.next())["type"] == "batch"
        push.add(Committed("run1", 1, 2, 3))
        await sync_to_async(push.flush)(101.0)
        assert (await ear.next())["type"] == "batch"


async def test_new_media_make_the_run_s_pages_look_again_once_a_second_and_at_last() -> None:
    push = Push()
    async with Ear(run_group("run1")) as ear:
        for number in range(3):
            push.add(Committed("run1", 1, number, number + 1, has_media=True))
            await sync_to_async(push.flush)(100.0 + number)  # the first goes at once
            assert await ear.next() == {"type": "run"}
            assert (await ear.next())["type"] == "batch"
            push.add(Committed("run1", 1, number, number + 1, has_media=True))
            await sync_to_async(push.flush)(100.5 + number)
            assert (await ear.next())["type"] == "batch"
            assert push.wait_s(100.5 + number, 5.0) == pytest.approx(0.5)
        await sync_to_async(push.flush)(103.0)  # nothing came, but something is left to say
        assert await ear.next() == {"type": "run"}
        assert push.wait_s(103.0, 5.0) == 5.0


async def test_whoever_has_no_loop_says_at_once_that_there_are_media() -> None:
    async with Ear(run_group("run1")) as ear:
        await sync_to_async(push_now)(Committed("run1", 1, 0, 1, has_media=True))
        assert [await ear.next() for _ in range(2)] == [{"type": "run"}, {"type": "moved", "cursor": 1}]


async def test_batches_within_a_tenth_of_a_second_are_sent_as_one() -> None:
    push = Push()
    async with Ear(run_group("run1")) as ear:
        for number, now in enumerate((100.0, 100.02)):  # the first goes at once, and the next may come early
            push.add(batch(number))
            await sync_to_async(push.flush)(now)
        push.add(batch(2))
        push.add(batch(3, lines=1))
        await sync_to_async(push.flush)(100.05)
        assert push.wait_s(100.05, 1.0) == pytest.approx(0.05)
        push.add(batch(4))
        await sync_to_async(push.flush)(100.11)
        first, second, third = [await ear.next() for _ in range(3)]
    assert (first["from"], first["cursor"], second["cursor"]) == (0, 1, 2)
    assert (third["from"], third["cursor"], third["steps"]) == (2, 5, [2, 4])
    lines, points = messages(third)
    assert [line["text"] for line in lines["lines"]] == ["x"]
    assert [(one["from"], one["cursor"]) for one in (lines, points)] == [(2, 2), (2, 5)]
    assert points["series"][0]["step"] == [2, 3, 4]
    assert push.wait_s(100.11, 1.0) == 1.0


async def test_what_is_too_much_is_a_refetch_once_a_second() -> None:
    push = Push()
    async with Ear(run_group("run1")) as ear:
        push.add(batch(0, size=MAX_POINTS + 1))
        await sync_to_async(push.flush)(100.0)
        assert messages(await ear.next()) == [{"type": "refetch", "from": 0, "cursor": 1, "steps": [0, MAX_POINTS]}]
    push.add(batch(1))
    assert push.wait_s(100.0, 5.0) == EVERY_REFETCH_S


async def test_the_overview_hears_of_a_run_that_steps_on() -> None:
    push = Push()
    async with Ear(OVERVIEW_GROUP) as ear:
        push.add(batch(0))
        await sync_to_async(push.flush)(100.0)
        assert await ear.next() == {"type": "run", "run": "run1"}


async def test_who_has_no_loop_says_only_that_there_is_more() -> None:
    async with Ear(run_group("run1")) as ear:
        await sync_to_async(push_now)(batch(3))
        assert await ear.next() == {"type": "moved", "cursor": 4}


def test_a_batch_that_somebody_else_pushed_is_not_claimed() -> None:
    push = Push()
    push.add(batch(0))
    push.add(batch(4))  # 1 to 4 were committed, and sent, by another process
    assert (push._waiting["run1"].start, push._waiting["run1"].cursor) == (4, 5)


def test_nothing_new_is_nothing_to_send() -> None:
    push = Push()
    push.add(Committed("run1", 1, 3, 3))
    assert push.wait_s(0.0, 1.0) == 1.0
