"""One feed for all sockets of a run: against the real store and the real channel layer, and members that listen."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from channels.db import database_sync_to_async
from django.db import OperationalError

from dashboard.sockets import consumers, feeds
from dashboard.sockets.admission import UNAVAILABLE
from dashboard.sockets.consumers import RunFeed
from dashboard.sockets.feeds import Feed, Outbox, feed_of
from runs.ingest.commit import Source, commit
from runs.ingest.push import Push, push_now
from runs.ingest.validation.records import incoming
from runs.models import Run
from runs.records.deltas import delta
from runs.records.metrics import erase, progress
from runs.rights.access import Sight
from runs.serving import broadcast
from runs.serving.broadcast import run_group
from tests.cast import Cast
from tests.servers import Valkey
from tests.spools import Spool, some_points

pytestmark = [pytest.mark.django_db(transaction=True, databases="__all__")]

PATIENCE_S = 20.0


class Listener:
    """A member whose reader keeps up."""

    def __init__(self) -> None:
        self.outbox = Outbox()
        self.sight = Sight(None)
        self.code = 0
        self.heard: list[dict[str, Any]] = []
        self.moved = asyncio.Event()
        self.reading = asyncio.create_task(self.listen())

    def end(self, code: int) -> None:
        self.code = code
        self.moved.set()

    async def listen(self) -> None:
        while True:
            self.heard.append(json.loads(await self.outbox.take()))
            self.moved.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self.moved.clear()
                await self.moved.wait()

    @property
    def batches(self) -> list[dict[str, Any]]:
        return [one for one in self.heard if one["type"] in ("points", "refetch")]

    @property
    def steps(self) -> list[int]:
        return [step for batch in self.batches for step in batch["series"][0]["step"]]


@pytest.fixture
def run(make_run: Callable[..., Run], valkey: Valkey) -> Run:
    return make_run()


@pytest.fixture(autouse=True)
def quick_pings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "PING_EVERY_S", 0.1)


@database_sync_to_async
def store(run: Run, *frames: bytes, by: Callable[[Any], None] | None = push_now) -> None:
    for frame in frames:
        committed = commit(run.pk, fence=1, source=Source("node1", "node-a"), batch=incoming(frame))
        if by is not None:
            by(committed)


def as_ingest(committed: Any) -> None:
    push = Push()
    push.add(committed)
    push.flush(time.monotonic())


def joined(run: Run, since: int | None = None) -> tuple[RunFeed, Listener]:
    feed, listener = feed_of(RunFeed, run_group(run.pk)), Listener()
    feed.join(listener, since)
    return feed, listener


async def test_whoever_joins_at_whatever_cursor_gets_everything_once(run: Run) -> None:
    """While batches pour in, by ingest and over REST, some of them without a word to the channel layer."""
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    draw, num_batches, spool = random.Random(seed), 40, Spool()
    listeners: list[tuple[int, Listener]] = []
    for step in range(1, num_batches + 1):
        await store(run, spool.points(some_points(step, 1)), by=draw.choice([as_ingest, as_ingest, push_now, None]))
        if draw.random() < 0.3:
            since = draw.randint(0, step)
            listeners.append((since, joined(run, since)[1]))
    for since, listener in listeners:
        await listener.until(lambda one=listener: bool(one.steps) and one.steps[-1] == num_batches)  # type: ignore[misc]
        assert listener.steps == list(range(since + 1, num_batches + 1))
        chain = [(batch["from"], batch["cursor"]) for batch in listener.batches]
        assert [start for start, _ in chain] == [since, *(cursor for _, cursor in chain[:-1])]


async def test_without_a_cursor_one_gets_what_comes_from_now_on(run: Run) -> None:
    spool = Spool()
    await store(run, spool.points(some_points(1, 3)))
    _, listener = joined(run)
    await listener.until(lambda: bool(listener.heard))
    assert listener.heard == [{"type": "ping", "cursor": 1}]
    await store(run, spool.points(some_points(4, 1)))
    await listener.until(lambda: listener.steps == [4])


async def test_a_run_has_one_subscription_and_none_when_nobody_watches(run: Run, valkey: Valkey) -> None:
    import redis

    members = [joined(run) for _ in range(5)]
    await asyncio.gather(*(one.until(lambda one=one: bool(one.heard)) for _, one in members))  # type: ignore[misc]
    with redis.Redis.from_url(valkey.url) as client:
        assert len(client.pubsub_channels("*")) == 2  # the group's, and the feed's own
        for feed, listener in members:
            feed.leave(listener)
        async with asyncio.timeout(PATIENCE_S):
            while client.pubsub_channels("*"):
                await asyncio.sleep(0.01)
    assert feed_of(RunFeed, run_group(run.pk)) is not members[0][0]


async def test_those_who_come_back_with_one_cursor_share_what_is_read(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "PING_EVERY_S", 100.0)
    spool, reads, really = Spool(), [], delta.delta_since
    await store(run, spool.points(some_points(1, 1)), spool.points(some_points(2, 1)))
    monkeypatch.setattr(delta, "delta_since", lambda *asked: reads.append(asked) or really(*asked))
    members = [joined(run, since=1)[1] for _ in range(50)]
    await asyncio.gather(*(one.until(lambda one=one: one.steps == [2]) for one in members))  # type: ignore[misc]
    assert reads == [(run.pk, 1)]


async def test_many_small_batches_over_rest_are_few_messages(run: Run) -> None:
    _, listener = joined(run)
    await listener.until(lambda: bool(listener.heard))
    spool, started_at = Spool(), time.monotonic()
    for step in range(1, 31):
        await store(run, spool.points(some_points(step, 1)))
    await listener.until(lambda: bool(listener.steps) and listener.steps[-1] == 30)
    seconds = time.monotonic() - started_at
    assert listener.steps == list(range(1, 31))
    assert len(listener.batches) <= 2 + seconds / min(consumers.EVERY_S, feeds.PING_EVERY_S)


async def test_a_store_that_has_less_than_before_is_read_again_by_all(run: Run) -> None:
    spool = Spool()
    await store(run, spool.points(some_points(1, 1)), spool.points(some_points(2, 1)))
    _, listener = joined(run)
    await listener.until(lambda: bool(listener.heard))
    assert listener.heard[0] == {"type": "ping", "cursor": 2}
    await database_sync_to_async(erase.delete_run_data)(run.pk)
    await listener.until(lambda: bool(listener.batches))
    assert listener.batches == [{"type": "refetch", "from": 0, "cursor": 0, "steps": None}]
    await store(run, Spool().points(some_points(7, 1)))
    await listener.until(lambda: len(listener.batches) == 2)
    assert listener.batches[1]["series"][0]["step"] == [7]


async def test_a_cursor_that_was_made_up_is_a_refetch(run: Run) -> None:
    await store(run, Spool().points(some_points(1, 1)))
    _, listener = joined(run, since=10**15)
    await listener.until(lambda: len(listener.heard) > 1)
    assert [(one["type"], one["cursor"]) for one in listener.heard[:2]] == [("refetch", 1), ("ping", 1)]


async def test_what_is_too_large_for_a_message_is_a_refetch_of_its_steps(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta, "MAX_CHARS", 10_000)
    _, listener = joined(run)
    await listener.until(lambda: bool(listener.heard))
    await store(run, Spool().points(some_points(5, 1_000)), by=as_ingest)
    await listener.until(lambda: bool(listener.batches))
    assert listener.batches == [{"type": "refetch", "from": 0, "cursor": 1, "steps": [5, 1_004]}]


async def test_a_feed_that_fails_closes_its_sockets_and_the_next_begins_anew(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed, listener = joined(run)
    await listener.until(lambda: bool(listener.heard))

    def fail(run_id: str) -> int:
        raise OperationalError("the disk is gone")

    with monkeypatch.context() as broken:
        broken.setattr(progress, "cursor_of", fail)
        await listener.until(lambda: listener.code == UNAVAILABLE)
    other, late = joined(run)
    assert other is not feed
    feed.leave(listener)
    await late.until(lambda: bool(late.heard))
    assert feed_of(RunFeed, run_group(run.pk)) is other


async def test_hints_reach_every_member(run: Run, cast: Cast) -> None:
    members = [joined(run)[1] for _ in range(3)]
    await asyncio.gather(*(one.until(lambda one=one: bool(one.heard)) for one in members))  # type: ignore[misc]
    await database_sync_to_async(broadcast.run_changed)(run.pk)
    await asyncio.gather(*(one.until(lambda one=one: {"type": "run"} in one.heard) for one in members))  # type: ignore[misc]


async def test_work_that_is_cancelled_before_it_begins_is_never_made() -> None:
    class Idle(Feed):
        async def run(self) -> None: ...

    made: list[int] = []

    async def work() -> None:
        made.append(1)

    feed = Idle("nobody")
    feed.spawn(work)
    feed._close()
    await asyncio.sleep(0)
    gc.collect()  # a coroutine that nobody awaited would warn, and warnings are errors
    assert not made
