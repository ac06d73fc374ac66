"""Logs and media of a project that encrypts, from the stream until committed, beside the same of one that does not.

Both go through ingest itself in this process: a real Valkey (AOF), SQLite with synced commits. A batch has 256 KB, as a
supervisor sends it: lines as trainings print them, pictures of 20 KB that do not compress, captions and texts.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks import goals
from benchmarks.load.generate import SEED, START_S, Sender, batches
from benchmarks.metrics_stack import MetricsStack, metrics_stack
from benchmarks.table import Row, middle, scaled, spread_of
from tests.frames import encode
from trainyard.contract.locks import lock_bytes
from trainyard.contract.seals import LOCKED, frames_scope, stream_key
from trainyard.formats.pictures import png

if TYPE_CHECKING:
    from runs.models import Project

NUM_LINES, LINES_PER_FRAME = 200_000, 500
NUM_MEDIA = 2_000
REPEATS = 9  # of both in turns, after one that is not counted
PICTURE_SIDE = 80


def rows() -> list[Row]:
    with metrics_stack() as place:
        hidden = encrypting_project(place)
        found = [row(place, hidden, "logs", lines), row(place, hidden, "media", pictures)]
    return found


def row(place: MetricsStack, hidden: Project, what: str, make: Any) -> Row:
    found = [
        (speed(place, hidden, list(batches(make()))), speed(place, None, list(batches(make()))))
        for _ in range(scaled(REPEATS) + 1)
    ][1:]
    ours, plain = [one.per_cpu_s for one, _ in found], [other.per_cpu_s for _, other in found]
    per_s: dict[str, float | None] = {"ours, by the clock": middle(one.per_s for one, _ in found)}
    per_s["the other, by the clock"] = middle(other.per_s for _, other in found)
    return Row(
        f"ingest of {what}, encrypted: committed by its CPU time", middle(ours), "MB/CPU-s", middle(plain),
        "the same of a project that does not encrypt", is_less_better=False, goal=goals.INGEST_ENCRYPTED,
        spread=spread_of(ours), others=per_s,
    )  # fmt: skip


def encrypting_project(place: MetricsStack) -> Project:
    from runs.models import Project
    from runs.rights.secrets.storage_keys import make_storage_key

    project = Project.objects.create(name="hidden", encrypts_files=True)
    make_storage_key(project)
    return project


class Speed(NamedTuple):
    """MB of frames that were committed a second."""

    per_cpu_s: float
    per_s: float


def speed(place: MetricsStack, project: Project | None, parts: list[bytes]) -> Speed:
    from runs.ingest.consumer import Consumer
    from runs.records.metrics.models import Telemetry

    run = place.make_run("bench-encrypted")
    if project is not None:
        type(run).objects.filter(pk=run.pk).update(project=project)
    attempt = place.make_attempt(run)
    sender = Sender(place.node.pk, place.node.key, run.pk, attempt.pk, attempt.fence)
    scope = frames_scope(sender.node, sender.run, sender.fence)
    for data in parts:
        entry = sender.entry(data)
        if project is not None:
            entry |= {"e": LOCKED, "d": lock_bytes(sender.key, scope, data), "m": ""}
        place.redis.xadd(stream_key(0), entry)  # type: ignore[arg-type]
    consumer = Consumer(0, block_s=0.01)
    cpu_s, started = time.process_time(), time.perf_counter()
    while place.redis.xlen(stream_key(0)):
        consumer.step()
    cpu_s, seconds = time.process_time() - cpu_s, time.perf_counter() - started
    consumer.close()
    if not Telemetry.objects.filter(run_id=run.pk, cursor__gt=0).exists():
        raise SystemExit("nothing was committed")
    megabytes = sum(map(len, parts)) / 1e6
    return Speed(megabytes / cpu_s, megabytes / seconds)


def lines() -> Iterator[bytes]:
    words = random.Random(SEED)
    producer = uuid.uuid4().hex
    yield begin(producer)
    for number, start in enumerate(range(0, scaled(NUM_LINES, 1_000), LINES_PER_FRAME), 2):
        some = [
            (START_S + at, f"step {at} loss {words.random():.6f} lr {words.random():.3e} {words.getrandbits(64):x}")
            for at in range(start, start + LINES_PER_FRAME)
        ]
        yield encode({"p": producer, "q": number, "t": "logs", "rank": 0, "stream": "stdout", "lines": some})


def pictures() -> Iterator[bytes]:
    noise = random.Random(SEED)
    producer = uuid.uuid4().hex
    yield begin(producer)
    for number in range(scaled(NUM_MEDIA, 10)):
        pixels = noise.randbytes(PICTURE_SIDE * PICTURE_SIDE * 3)
        kind, meta, data = "image", {"caption": f"sample {number}"}, png(pixels, PICTURE_SIDE, PICTURE_SIDE, 3)
        if number % 3 == 2:
            kind, meta, data = "text", {"format": "plain"}, b" ".join(b"%d" % noise.getrandbits(16) for _ in range(300))
        place = {"name": kind, "labels": {}, "step": number, "at": START_S + number}
        item = {**place, "kind": kind, "meta": meta, "data": data}
        yield encode({"p": producer, "q": number + 2, "t": "media", **item})


def begin(producer: str) -> bytes:
    fields = {"rank": 0, "node": "bench", "pid": 1, "at": START_S, "role": "rank"}
    return encode({"p": producer, "q": 1, "t": "begin", **fields})
