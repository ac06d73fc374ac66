"""A POST whose web process ends in the middle of it, and the same POST sent to another web on the same PostgreSQL: it
is done once, and at once where nothing of the first try can be stored any more."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest

from dashboard.up.parent_death import tethered
from tests.dashboard.postgres_home import environment, running, said
from tests.servers import PostgreSQL, Valkey, free_port, short_folder
from tests.up_process import ROOT, wait_until
from tests.whole.test_upgrade import TOKEN, is_live

pytestmark = [pytest.mark.postgres, pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(600)]
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


class TwoWebs:
    def __init__(self, folder: Path, database: PostgreSQL, valkey: Valkey) -> None:
        self.home, self.database = folder / "home", database
        self.settings = {"REDIS_URL": valkey.url, "SECRET_KEY": "of this test"}
        self.ports = [free_port(), free_port()]
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        code, words = said(self.home, self.database.url, "-m", "dashboard.serve", "migrate", **self.settings)
        assert code == 0, words
        code, words = said(self.home, self.database.url, "-c", TOKEN, **self.settings)
        assert code == 0, words
        [self.token] = re.findall(r"\bty_[\w-]+", words)
        for port in self.ports:
            self.begin(port)

    def begin(self, port: int) -> None:
        command = tethered([sys.executable, "-m", "dashboard.serve", "web"])
        given = environment(self.home, self.database.url, PORT=str(port), **self.settings)
        self.processes[port] = subprocess.Popen(command, cwd=ROOT, env=given)
        wait_until(lambda: is_live(port), "web answers")

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()

    def post(self, number: int, name: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.token}", "Idempotency-Key": name}
        url = f"http://127.0.0.1:{self.ports[number]}/api/v1/projects"
        return httpx.post(url, json={"name": name}, headers=headers, timeout=60)

    def is_refused(self, name: str) -> bool:
        """Whether the second web says that the first try goes on."""
        answer = self.post(1, name)
        return answer.status_code == 409 and answer.json()["code"] == "in-progress"

    @contextmanager
    def held(self) -> Iterator[psycopg.Connection]:
        """Nobody can store a project until this transaction ends."""
        with psycopg.connect(self.database.url) as connection:
            connection.execute("LOCK TABLE runs_project IN EXCLUSIVE MODE")
            yield connection

    def projects(self) -> list[str]:
        with psycopg.connect(self.database.url) as connection:
            return [name for (name,) in connection.execute("SELECT name FROM runs_project").fetchall()]


def is_waiting(connection: psycopg.Connection) -> bool:
    found = connection.execute(WAITING).fetchone()
    return found is not None and found[0] > 0


@pytest.fixture(scope="module")
def webs() -> Iterator[TwoWebs]:
    with running() as database, short_folder("ty-cut-") as folder:
        valkey = Valkey(folder / "valkey")
        valkey.start()
        one = TwoWebs(folder, database, valkey)
        try:
            one.start()
            yield one
        finally:
            one.stop()
            valkey.stop()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_other_web_does_it_once_the_first_one_can_store_nothing_more(
    webs: TwoWebs, threads: ThreadPoolExecutor, number: signal.Signals
) -> None:
    with webs.held() as connection:
        first = threads.submit(webs.post, 0, number.name)
        wait_until(lambda: is_waiting(connection) or first.done(), "the first try is in the database")
        assert not first.done(), first.result().text
        assert webs.is_refused(number.name)
        process = webs.processes[webs.ports[0]]
        process.send_signal(number)
        process.wait(timeout=60)
        assert isinstance(first.exception(timeout=60), httpx.TransportError)
        assert webs.is_refused(number.name), "what it has sent to the database may still be stored"
    began = time.monotonic()
    wait_until(lambda: webs.post(1, number.name).status_code == 201, "the other web does it")
    print(f"\n{number.name}: done {time.monotonic() - began:.2f} s after the first try was over")
    assert webs.projects().count(number.name) == 1
    webs.begin(webs.ports[0])
    assert webs.post(0, number.name).headers["Idempotency-Replayed"] == "true"


def test_a_web_that_stops_answers_what_it_was_asked_for_and_ends_its_event_streams(
    webs: TwoWebs, threads: ThreadPoolExecutor
) -> None:
    headers, url = {"Authorization": f"Bearer {webs.token}"}, f"http://127.0.0.1:{webs.ports[0]}/api/v1/events"
    process = webs.processes[webs.ports[0]]
    with httpx.stream("GET", url, headers=headers, timeout=60) as events, webs.held() as connection:
        parts = events.iter_text()
        assert next(parts).startswith("retry: ")
        first = threads.submit(webs.post, 0, "drained")
        wait_until(lambda: is_waiting(connection) or first.done(), "the request is in the database")
        process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        list(parts)  # raises where the stream is cut off
        wait_until(lambda: time.monotonic() - began > 3, "it takes longer than a web once went on")
    assert first.result(timeout=60).status_code == 201
    process.wait(timeout=60)
    webs.begin(webs.ports[0])


def test_a_web_that_stands_still_is_not_taken_for_dead(webs: TwoWebs, threads: ThreadPoolExecutor) -> None:
    process = webs.processes[webs.ports[0]]
    with webs.held() as connection:
        first = threads.submit(webs.post, 0, "still")
        wait_until(lambda: is_waiting(connection) or first.done(), "the first try is in the database")
        assert not first.done(), first.result().text
        process.send_signal(signal.SIGSTOP)
    try:
        until = time.monotonic() + 16  # longer than PostgreSQL waits for a machine that is gone
        wait_until(lambda: time.monotonic() > until or not webs.is_refused("still"), "time has passed")
        assert time.monotonic() > until and "still" not in webs.projects()
    finally:
        process.send_signal(signal.SIGCONT)
    assert first.result(timeout=60).status_code == 201
    again = webs.post(1, "still")
    assert again.headers["Idempotency-Replayed"] == "true" and again.json() == first.result().json()
    assert webs.projects().count("still") == 1
