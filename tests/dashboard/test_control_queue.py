"""Control's queue: what the server did not seal is dropped and counted, and control goes on."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from dashboard.up import programs
from runs import tasks
from runs.engines import control_hints
from runs.engines.control_hints import ScheduleHint
from runs.presenting import server_state
from runs.serving.transport import redis
from tests.servers import Valkey
from tests.workers.junk import JUNK
from trainyard.contract import seals

ROOT = Path(__file__).resolve().parents[2]


def until(is_so: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def control(valkey: Valkey) -> Iterator[subprocess.Popen[bytes]]:
    """The process that `up` starts, with the settings of this test's home. Its database has no tables."""
    program = programs.control()
    environment = {**os.environ, **{name: value for name, value in (program.environment or {}).items() if value}}
    process = subprocess.Popen(
        program.command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    yield process
    process.terminate()
    process.wait(timeout=20)


def test_junk_in_its_queue_does_not_end_control(control: subprocess.Popen[bytes], db: None) -> None:
    for raw in JUNK:
        redis().lpush(seals.CONTROL_QUEUE, raw)
    until(lambda: not redis().llen(seals.CONTROL_QUEUE))
    until(lambda: server_state.look().dropped_messages == len(JUNK))
    assert control.poll() is None
    for raw in JUNK:  # it still reads
        redis().lpush(seals.CONTROL_QUEUE, raw)
    until(lambda: server_state.look().dropped_messages == 2 * len(JUNK))
    assert control.poll() is None
    assert Client().get("/api/v1/health").json()["dropped_messages"] == 2 * len(JUNK)


def test_a_hint_opens_with_the_servers_key_alone_and_is_young(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    monkeypatch.setattr(control_hints.current_app, "send_task", lambda *_, kwargs, **__: sent.append(kwargs["sealed"]))
    control_hints.request_schedule("local")
    (sealed,) = sent
    opened = control_hints.opened(tasks.SCHEDULE, sealed, ScheduleHint)
    assert opened is not None and opened.cluster_id == "local"
    assert not control_hints.is_ours(seals.RECONCILE_RUN, sealed), "it is for another task"
    scope = seals.control_scope(tasks.SCHEDULE)
    other = seals.seal(seals.new_key(), scope, {"at": time.time(), "cluster_id": "local"})
    old = seals.seal(control_hints.control_key(), scope, {"at": time.time() - 3600, "cluster_id": "local"})
    assert control_hints.is_ours(tasks.SCHEDULE, sealed)
    assert not control_hints.is_ours(tasks.SCHEDULE, other) and not control_hints.is_ours(tasks.SCHEDULE, old)


def test_a_task_that_is_called_without_a_seal_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    monkeypatch.setattr("runs.life.reconcile.reconcile_run", lambda run, now: looked.append(run))
    tasks.reconcile_run(sealed="x.{}")
    assert looked == []


def test_a_worker_that_is_busy_reads_on() -> None:
    """At a limit kombu sleeps for up to a second, and what follows a report waits for the tick."""
    from dashboard.celery import app

    assert (app.conf.worker_disable_prefetch, app.conf.worker_prefetch_multiplier) == (False, 0)
