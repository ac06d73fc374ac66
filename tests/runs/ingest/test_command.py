"""``manage.py ingest`` as ``up`` starts it: a process of its own, ended by a signal, or by SIGKILL at any moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connections

from runs.models import Run
from runs.records.metrics import progress
from runs.serving.transport import redis
from tests.cast import Cast, make_attempt, make_node
from tests.series import series_data
from tests.servers import Valkey
from tests.spools import Spool, send, some_points
from trainyard.contract.seals import stream_key

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")

ROOT = Path(__file__).resolve().parents[3]
# The databases of the tests have other names than those of the settings.
PROGRAM = """
import sys
from django.conf import settings
import django
django.setup()
for alias, name in zip(sys.argv[1].split(","), sys.argv[2].split(","), strict=True):
    settings.DATABASES[alias]["NAME"] = name
from django.core.management import call_command
call_command("ingest", shard=0)
"""


@pytest.fixture
def start() -> Iterator[Callable[[], subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def one() -> subprocess.Popen[str]:
        names = ",".join(str(connections[alias].settings_dict["NAME"]) for alias in settings.DATABASES)
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, ",".join(settings.DATABASES), names],
            cwd=ROOT,
            env=dict(os.environ),
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        while "is ready" not in (line := process.stdout.readline()):
            assert line, "the process ended"
        return process

    yield one
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_it_stores_what_comes_and_ends_cleanly_when_told_to(
    cast: Cast, make_run: Callable[..., Run], valkey: Valkey, start: Callable[[], subprocess.Popen[str]]
) -> None:
    run, node = make_run(), make_node(cast.cluster)
    attempt = make_attempt(run, [node])
    process = start()
    spool = Spool()
    spool.begin()
    spool.points(some_points(1, 3))
    send(attempt, node, spool.bytes)
    wait_for(lambda: progress.watermarks(run.pk) == {spool.producer: 2})
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0
    assert redis().xlen(stream_key(0)) == 0
    assert redis().get("trainyard:ingest:0") is None


def test_killed_again_and_again_each_point_is_there_once(
    cast: Cast, make_run: Callable[..., Run], valkey: Valkey, start: Callable[[], subprocess.Popen[str]]
) -> None:
    run, node = make_run(), make_node(cast.cluster)
    attempt = make_attempt(run, [node])
    spool = Spool()
    spool.begin()
    for number in range(1, 201):
        send(attempt, node, spool.points(some_points(number, 1)) if number > 1 else spool.bytes)
    # Frame 1 is the begin record alone; every later frame k holds the one point of step k.
    for least in (1, 150):
        process = start()
        wait_for(lambda least=least: progress.watermarks(run.pk).get(spool.producer, 0) >= least)  # type: ignore[misc]
        process.kill()
        process.wait()
        for first in range(0, len(spool.frames), 50):
            send(attempt, node, b"".join(spool.frames[first : first + 50]))
    start()
    wait_for(lambda: redis().xlen(stream_key(0)) == 0)
    assert [part["step"] for part in series_data(run.pk, ["train/loss"])["series"]] == [list(range(2, 201))]
