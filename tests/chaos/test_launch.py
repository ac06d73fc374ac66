"""What goes wrong while a run starts or is stopped: every message is a hint, and the rows bring each run to its end."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Iterator

import psutil
import pytest
import redis

from dashboard.home import socket_path
from tests.chaos.test_kills import kill
from tests.up_process import Up, wait_until
from tests.whole.runs import FINAL, Document, Yard, example

KEEPERS = {"ty-reaper", "ty-supervisor"}
QUEUES = ("control", "node.local-1", "node.local-2")

pytestmark = [pytest.mark.slow, pytest.mark.extended]


@pytest.fixture
def choice() -> random.Random:
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(10_000)))
    print(f"CHAOS_SEED={seed}")
    return random.Random(seed)


def tiny(steps: int = 10) -> Document:
    return example("tiny-steps", steps=steps, batch_size=2, warmup_steps=1, validate_every_steps=steps)


def attempts(yard: Yard, run_id: str) -> list[Document]:
    items: list[Document] = yard.get(f"/runs/{run_id}/attempts")["items"]
    return items


def check_success(yard: Yard, run_id: str, seconds: float = 60) -> None:
    run = yard.wait_for_end(run_id, seconds)
    assert run["status"] == "SUCCEEDED", run["reason"]
    assert len(attempts(yard, run_id)) == 1
    by_labels = yard.steps(run_id, "train/loss")
    assert all(steps == list(range(1, 11)) for steps in by_labels.values()), by_labels


def held(yard: Yard) -> list[Document]:
    return [slot for node in yard.get("/nodes")["items"] for slot in node["held"]]


def keepers(up: Up) -> list[psutil.Process]:
    found = []
    for process in up.descendants():
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.name() in KEEPERS:
                found.append(process)
    return found


def check_nothing_is_left(up: Up, yard: Yard) -> None:
    wait_until(lambda: not held(yard), "every slot is free", patience_s=30)
    wait_until(lambda: not keepers(up), "no supervisor is left", patience_s=30)


@contextlib.contextmanager
def lost_messages(up: Up) -> Iterator[None]:
    """Every Celery message is gone before, or a moment after, somebody could read it."""
    over = threading.Event()

    def wipe() -> None:
        with redis.Redis(unix_socket_path=str(socket_path(up.home))) as client:
            while not over.wait(0.002):
                client.delete(*QUEUES)

    wiper = threading.Thread(target=wipe)
    wiper.start()
    try:
        yield
    finally:
        over.set()
        wiper.join()


def test_control_may_be_killed_at_any_moment_of_a_launch(
    running_trainyard: Up, yard: Yard, choice: random.Random
) -> None:
    for _ in range(3):
        run_id = yard.submit(tiny())
        time.sleep(choice.random() * 1.2)
        kill(running_trainyard, "control")
        check_success(yard, run_id)
    check_nothing_is_left(running_trainyard, yard)


def test_valkey_may_be_killed_while_a_run_starts(running_trainyard: Up, yard: Yard, choice: random.Random) -> None:
    run_id = yard.submit(tiny())
    time.sleep(choice.random() * 1.2)
    kill(running_trainyard, "valkey")
    check_success(yard, run_id)
    check_nothing_is_left(running_trainyard, yard)


def test_a_run_starts_though_every_message_is_lost(running_trainyard: Up, yard: Yard) -> None:
    with lost_messages(running_trainyard):
        run_ids = [yard.submit(tiny()) for _ in range(2)]
        for run_id in run_ids:
            check_success(yard, run_id)
    check_nothing_is_left(running_trainyard, yard)


@pytest.mark.parametrize("status", ["QUEUED", "SCHEDULED", "STARTING", "RUNNING"])
def test_a_stop_wins_or_comes_too_late(running_trainyard: Up, yard: Yard, status: str) -> None:
    """The run may be further by the time that the stop arrives."""
    run_id = yard.submit(tiny(steps=400))
    order = ["QUEUED", "SCHEDULED", "STARTING", "RUNNING", *FINAL]
    while order.index(yard.run(run_id)["status"]) < order.index(status):
        time.sleep(0.01)
    yard.post(f"/runs/{run_id}/stop")
    run = yard.wait_for_end(run_id, 60)
    assert run["status"] == "CANCELLED", run["reason"]
    check_nothing_is_left(running_trainyard, yard)


def test_twenty_quick_stops_leave_nothing_behind(running_trainyard: Up, yard: Yard, choice: random.Random) -> None:
    run_ids = []
    for _ in range(20):
        run_ids.append(yard.submit(tiny()))
        time.sleep(choice.random() * 0.2)
        answer = yard.http.post(f"/runs/{run_ids[-1]}/stop")
        assert answer.status_code in (200, 409), answer.text
    assert {yard.wait_for_end(run_id, 60)["status"] for run_id in run_ids} <= {"CANCELLED", "SUCCEEDED"}
    check_nothing_is_left(running_trainyard, yard)


def test_a_node_worker_that_is_paused_costs_the_run_nothing(running_trainyard: Up, yard: Yard) -> None:
    run_id = yard.submit(tiny(steps=4000))
    before = yard.wait_for_step(run_id, 5)["step"]
    wait_until(lambda: yard.run(run_id)["status"] == "RUNNING", "its nodes say that it runs")
    pid = running_trainyard.processes()["local-1"]
    os.kill(pid, signal.SIGSTOP)
    try:
        until, seen = time.monotonic() + 8, set()
        while time.monotonic() < until:
            seen.add(yard.run(run_id)["status"])
            time.sleep(0.1)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert seen == {"RUNNING"}, "its supervisor went on speaking"
    yard.wait_for_step(run_id, before + 20)
    wait_until(lambda: all(node["is_in_contact"] for node in yard.get("/nodes")["items"]), "the node is back")
    assert yard.run(run_id)["status"] == "RUNNING"
    yard.post(f"/runs/{run_id}/stop")
    assert yard.wait_for_end(run_id, 60)["status"] == "CANCELLED"
    check_nothing_is_left(running_trainyard, yard)
