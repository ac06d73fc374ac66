"""The gate before Celery: a real worker, a real queue, and whatever anybody puts into it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from celery import Celery

from tests.servers import Valkey
from tests.workers.control import until
from tests.workers.junk import JUNK, message
from workers.transport.broker import ForeignMessage, MessageGate, read_message, rebuilt_message
from workers.transport.commands import make_app

ROOT = Path(__file__).resolve().parents[3]
OURS = "workers.tasks.nudge"
# A worker that writes down in Valkey what it did, and lets nothing pass but what is sealed with "fits".
WORKER = """
import sys, redis
from workers.transport.commands import make_app
from workers.transport.broker import MessageGate
url = sys.argv[1]
done = redis.Redis.from_url(url)
tasks = frozenset({"workers.tasks.nudge"})
gate = MessageGate(tasks, lambda task, sealed: sealed == "fits", lambda: done.incr("dropped"))
app = make_app(url, "guarded", gate if sys.argv[2] == "gate" else None)
@app.task(name="workers.tasks.nudge")
def nudge(*, sealed):
    done.incr("done")
options = dict(without_gossip=True, without_mingle=True, without_heartbeat=True)
worker = app.Worker(hostname="a@b", pool="threads", concurrency=2, loglevel="WARNING", quiet=True, **options)
worker.start()
"""


class GuardedWorker:
    def __init__(self, valkey: Valkey, how: str) -> None:
        self.client = redis.Redis.from_url(valkey.url)
        self.app: Celery = make_app(valkey.url, "guarded")
        command = [sys.executable, "-c", WORKER, valkey.url, how]
        environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def send(self, sealed: str = "fits") -> None:
        self.app.send_task(OURS, kwargs={"sealed": sealed}, queue="node.guarded")

    def count(self, key: str) -> int:
        return int(self.client.get(key) or 0)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=20)
        self.app.close()
        self.client.close()


@pytest.fixture
def worker(valkey: Valkey) -> Iterator[GuardedWorker]:
    one = GuardedWorker(valkey, "gate")
    yield one
    one.close()


def test_junk_is_dropped_and_counted_and_what_is_sealed_is_done(worker: GuardedWorker) -> None:
    worker.send()
    until(lambda: worker.count("done") == 1)
    for raw in JUNK:
        worker.client.lpush("node.guarded", raw)
    worker.send("does not fit")
    worker.send()
    until(lambda: worker.count("done") == 2)
    assert worker.count("dropped") == len(JUNK) + 1
    assert worker.process.poll() is None and not worker.client.llen("node.guarded")
    names = [key.decode() for key in worker.client.keys("*") if b"unacked" in key]  # type: ignore[union-attr]
    assert names == [], "nobody but the worker would look after these"


def test_junk_among_what_was_not_acknowledged_does_not_end_a_worker(worker: GuardedWorker) -> None:
    worker.client.hset("unacked", "tag", "not json")
    worker.client.zadd("unacked_index", {"tag": 1.0})
    worker.send()
    until(lambda: worker.count("done") == 1)
    assert worker.process.poll() is None


def test_the_check_is_checked_a_worker_without_the_gate_ends(valkey: Valkey) -> None:
    one = GuardedWorker(valkey, "no gate")
    try:
        one.send()
        until(lambda: one.count("done") == 1)
        one.client.lpush("node.guarded", b"not json")
        one.send()
        until(lambda: one.process.poll() is not None or one.count("done") == 2)
        assert one.process.poll() is not None
    finally:
        one.close()


@pytest.mark.parametrize("raw", JUNK, ids=lambda raw: str(raw[:60]))
def test_junk_is_no_message(raw: bytes) -> None:
    gate = MessageGate(frozenset({OURS}), lambda task, sealed: sealed == "fits")
    assert gate.filtered("q", raw) is None and gate.num_dropped == 1


def test_nothing_of_a_message_passes_but_task_and_seal() -> None:
    hooks = {"callbacks": [{"task": "celery.ping"}], "errbacks": [], "chain": [{"task": "celery.ping"}], "chord": {}}
    raw = message(OURS, [[], {"sealed": "fits"}, hooks], eta="2999-01-01T00:00:00Z", group="g", retries=7)
    passed = MessageGate(frozenset({OURS}), lambda task, sealed: sealed == "fits").filtered("q", raw)
    assert passed is not None
    assert read_message(passed) == (OURS, "fits")
    text = passed.decode()
    assert "2999" not in text and "celery.ping" not in text
    assert json.loads(passed)["headers"].keys() == json.loads(rebuilt_message("q", OURS, "fits"))["headers"].keys()


def test_a_message_without_a_seal_says_why() -> None:
    with pytest.raises(ForeignMessage, match="not sealed"):
        read_message(message(OURS, [[], {"sealed": None}, {}]))
