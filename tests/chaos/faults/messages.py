"""Valkey, and what goes through it: lost, late, twice, or of an attempt that is over."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import redis

from dashboard.home import socket_path
from tests.chaos.faults.processes import PAUSED_S
from tests.chaos.losses.experiment import Experiment
from tests.chaos.scene import Scene
from tests.chaos.test_kills import kill
from trainyard.contract import seals

QUEUES = ("control", "node.local-1", "node.local-2")


def valkey_is_killed(scene: Scene) -> None:
    run = scene.submit()
    scene.wait_for_a_step(run)
    kill(scene.up, "valkey")
    scene.check_status(run)
    assert scene.yard.wait_for_end(run)["attempt"] == 1, "training did not notice"


def valkey_is_wiped(scene: Scene) -> None:
    run = scene.submit()
    scene.wait_for_a_step(run)
    Experiment(scene.up, scene.up.home, scene.choice, ()).wipe_valkey()
    scene.check_status(run)
    assert scene.yard.wait_for_end(run)["attempt"] == 1, "training did not notice"


def valkey_is_paused(scene: Scene) -> None:
    run = scene.submit(steps=2_000)
    scene.wait_for_a_step(run)
    pid = scene.up.processes()["valkey"]
    os.kill(pid, signal.SIGSTOP)
    time.sleep(PAUSED_S)
    os.kill(pid, signal.SIGCONT)
    scene.check_status(run)
    assert scene.yard.wait_for_end(run)["attempt"] == 1, "training did not notice"


def messages_come_twice(scene: Scene) -> None:
    """Every entry of the stream, and every command that waits in a queue, is there a second time."""
    with ever(scene, double_what_waits) as num_doubled:
        run = scene.submit()
        scene.wait_for_a_step(run)
        scene.kill_of_attempt(run, scene.any_rank)
        assert scene.yard.wait_for_end(run)["attempt"] == 2, "each attempt was started once"
    assert num_doubled[0] > 10, "there was nothing to double"
    scene.check_status(run)


def stale_attempt_reports(scene: Scene) -> None:
    """What the supervisors of an attempt that is over had reported arrives again, while the next one trains."""
    run = scene.submit(steps=800)
    scene.wait_for_a_step(run)
    with client(scene) as valkey:
        pattern = seals.report_key("*", "*")
        before = {key: valkey.get(key) for key in valkey.scan_iter(pattern)}
        frames = [fields for _, fields in valkey.xrange(seals.stream_key(0))]
        scene.kill_of_attempt(run, scene.any_rank)
        scene.wait_for_attempt(run, 2)
        scene.yard.wait_for_step(run, 20)
        until = time.monotonic() + 5
        while time.monotonic() < until:
            for key, value in before.items():
                if value is not None:
                    valkey.set(key, value)
            for fields in frames:
                valkey.xadd(seals.stream_key(0), fields)
            scene.check_is_true(run)
            time.sleep(0.2)
    scene.check_status(run)
    assert scene.yard.wait_for_end(run)["attempt"] == 2, "nothing that is over changes it"


def client(scene: Scene) -> redis.Redis:
    return redis.Redis(unix_socket_path=str(socket_path(scene.up.home)))


@contextlib.contextmanager
def ever(scene: Scene, act: Callable[[redis.Redis, set[bytes]], int]) -> Iterator[list[int]]:
    """Act again and again; yields how often there was something to do."""
    over, count, known = threading.Event(), [0], set[bytes]()

    def loop() -> None:
        with client(scene) as valkey:
            while not over.wait(0.005):
                count[0] += act(valkey, known)

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield count
    finally:
        over.set()
        thread.join()


def double_what_waits(valkey: redis.Redis, known: set[bytes]) -> int:
    number = 0
    for entry, fields in valkey.xrange(seals.stream_key(0)):
        if entry not in known:
            known |= {entry, valkey.xadd(seals.stream_key(0), fields)}
            number += 1
    for queue in QUEUES:
        for text in valkey.lrange(queue, 0, -1):
            if text not in known:
                known.add(text)
                valkey.rpush(queue, text)
                number += 1
    return number
