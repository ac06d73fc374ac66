"""Whatever happens on the way, what was acknowledged is stored exactly once: to the bit, and in its attempt.

Producers write frames; parts of them are sent in any order, twice, or not at all; ingest is killed at any point;
batches come over REST in between, and the store is compacted. In the end each producer sends from its watermark on,
as supervisors do, and the store must hold what was written, no more and no less.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from benchmarks.load.compaction import compact_run
from runs.ingest.consumer import Consumer
from runs.ingest.report import Gap, report_points
from runs.models import HeldSlot, Run
from runs.records.metrics import progress
from runs.records.metrics.models import Producer
from runs.serving.transport import redis
from tests.cast import Cast, make_attempt, make_node
from tests.points import Points, difference, gathered, key_of, rows, stored_points
from tests.servers import Valkey
from tests.spools import Point, Spool, send
from trainyard.contract.seals import stream_key

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")

NUM_PRODUCERS = 2  # the first is of an attempt that is over, the other of a newer one
NAMES = ("train/loss", "odd")
REST_NAME = "rest/loss"

producers = st.integers(0, NUM_PRODUCERS - 1)
steps = st.integers(-3, 6) | st.integers(-(2**63), 2**63 - 1)
times = st.sampled_from((1000.0, 1000.5, 0.0)) | st.floats(-1e10, 1e10)
points = st.lists(st.tuples(steps, times, st.floats(width=64)), max_size=5)
actions = st.one_of(
    st.tuples(st.just("write"), producers, st.sampled_from(NAMES), points),
    st.tuples(st.just("write_many"), producers, st.integers(1, 3000), st.integers(0, 2**32)),
    st.tuples(st.just("send"), producers, st.lists(st.integers(0, 5), min_size=1, max_size=6)),
    st.tuples(st.just("send_everything"), producers),
    st.tuples(st.just("send_from_watermark"), producers),
    st.tuples(st.just("work")),
    st.tuples(st.just("work")),
    st.tuples(st.just("kill"), st.sampled_from(("at rest", "before the commit", "after the commit"))),
    st.tuples(st.just("report"), points, st.integers(-1, 1)),
    st.tuples(st.just("compact"), st.booleans()),
)


class Killed(BaseException):
    """Nothing catches it."""


class Doomed(Consumer):
    """Reads as ingest does, and is killed on the way."""

    when = ""

    def _take(self, entries: Any) -> None:
        if self.when == "before the commit":
            raise Killed
        super()._take(entries)

    def _store(self, entries: Any) -> Any:
        stored = super()._store(entries)
        if self.when == "after the commit":
            raise Killed
        return stored


class Play:
    """A run with an old and a live attempt, what their producers wrote, and the shard's ingest."""

    def __init__(self, cast: Cast, run: Run) -> None:
        self.run = run
        self.stream = stream_key(run.shard)
        redis().delete(self.stream)
        node = make_node(cast.cluster)
        old = make_attempt(run, [node])
        old.ended_at = timezone.now()
        old.save()
        HeldSlot.objects.filter(placement__attempt=old).delete()
        live = make_attempt(run, [node])
        self.node = node
        self.attempts = [old, *[live] * (NUM_PRODUCERS - 1)]
        self.spools = [Spool() for _ in self.attempts]
        for spool in self.spools:
            spool.begin()
        self.acknowledged: Points = {}
        self.rest_producer = Spool().producer
        self.reported: list[list[tuple[str, dict[str, str], int, float, float]]] = []
        self.consumer = Doomed(run.shard, block_s=0.001)

    def write(self, which: int, name: str, some: list[Point]) -> None:
        labels = {} if name == "train/loss" else {"rank": str(which)}
        self.spools[which].points(some, name, **labels)
        self._acknowledge(self.attempts[which].fence, name, labels, some)

    def write_many(self, which: int, count: int, seed: int) -> None:
        choice = random.Random(seed)
        self.write(which, "many", [(choice.randrange(count), 1e9 + k / 7, choice.random()) for k in range(count)])

    def send(self, which: int, frames: list[int]) -> None:
        """These of the newest frames, counted back, in this order: gaps and repetitions, forwards and backwards."""
        written = self.spools[which].frames
        self._send(which, [written[-1 - index % len(written)] for index in frames])

    def send_everything(self, which: int) -> None:
        self._send(which, self.spools[which].frames)

    def send_from_watermark(self, which: int) -> None:
        spool = self.spools[which]
        self._send(which, spool.frames[progress.watermarks(self.run.pk).get(spool.producer, 0) :])

    def work(self) -> None:
        self.consumer.step()

    def kill(self, when: str) -> None:
        """Let it take one step more, in which it may get as far as that, and put another in its place."""
        self.consumer.when = when
        if when != "at rest":
            with contextlib.suppress(Killed):
                self.consumer.step()
        self.consumer._lock.release()  # or time would
        self.consumer = Doomed(self.run.shard, block_s=0.001)

    def report(self, some: list[Point], offset: int) -> None:
        """The next batch over REST, the last one again (-1), or one too far (1), which is refused."""
        sequence = len(self.reported) + 1 + offset
        if offset == -1:
            if not self.reported:
                return
            batch = self.reported[-1]
        else:
            batch = [(REST_NAME, {}, *point) for point in some]
        with pytest.raises(Gap) if offset == 1 else contextlib.nullcontext():
            report_points(self.run, producer=self.rest_producer, sequence=sequence, points=batch)
        if offset == 0:
            self.reported.append(batch)
            self._acknowledge(self.attempts[-1].fence, REST_NAME, {}, some)

    def compact(self, is_quiet: bool) -> None:
        compact_run(self.run.pk, progress.cursor_of(self.run.pk), is_quiet=is_quiet)

    def end(self) -> None:
        for which, spool in enumerate(self.spools):
            spool.end()
            self.send_from_watermark(which)
        idle = 0
        while idle < 2:  # the first time may have been the end of what was pending
            idle = 0 if self.consumer.step() else idle + 1
        self.consumer.close()

    def _send(self, which: int, frames: list[bytes]) -> None:
        if frames:
            send(self.attempts[which], self.node, b"".join(frames))

    def _acknowledge(self, fence: int, name: str, labels: dict[str, str], some: list[Point]) -> None:
        if some:
            columns = zip(*some, strict=True)
            part = gathered([(key_of(self.run.pk, fence, name, labels), rows(*columns))])
            for key, counted in part.items():
                self.acknowledged.setdefault(key, counted.__class__()).update(counted)


@settings(
    max_examples=20, deadline=None, database=None, print_blob=True,
    phases=(Phase.explicit, Phase.generate),  # to make a failing script smaller would take many minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
@given(script=st.lists(actions, min_size=8, max_size=30))
def test_any_sequence_of_deliveries_is_stored_exactly_once(
    cast: Cast, make_run: Callable[..., Run], valkey: Valkey, script: list[Any]
) -> None:
    play = Play(cast, make_run())
    for name, *arguments in script:
        getattr(play, name)(*arguments)
    play.end()
    stored = stored_points(play.run.pk)
    assert difference(play.acknowledged, stored)[1:] == (0, 0), (play.acknowledged, stored)
    assert redis().xlen(play.stream) == 0
    assert not Producer.objects.filter(run_id=play.run.pk, has_gap=True).exists()
    watermarks = {spool.producer: len(spool.frames) for spool in play.spools}
    assert {play.rest_producer: 0, **progress.watermarks(play.run.pk)} == {
        play.rest_producer: len(play.reported),
        **watermarks,
    }
