"""Controls with different Valkeys on one PostgreSQL: the first one works, the others refuse to start."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
import redis

from dashboard.up.parent_death import tethered
from dashboard.up.programs import control
from runs.serving.session_locks import KIND, REFUSAL
from tests.dashboard.postgres_home import environment, running, said
from tests.servers import PostgreSQL, Valkey, short_folder
from tests.up_process import ROOT, wait_until

pytestmark = [pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(300)]
HELD = f"SELECT objid FROM pg_locks WHERE locktype = 'advisory' AND classid = {KIND} AND granted"


class Controls:
    """Processes of one server with a Valkey of its own, on a database that others may use too."""

    def __init__(self, home: Path, database: PostgreSQL, valkey: Valkey) -> None:
        self.home, self.database, self.valkey = home, database, valkey
        self.settings = {"REDIS_URL": valkey.url, "SECRET_KEY": "of this test"}
        self.processes: list[subprocess.Popen[bytes]] = []

    def says(self) -> tuple[int, str]:
        return said(self.home, self.database.url, *control().command[1:], **self.settings)

    def begin(self) -> None:
        given = environment(self.home, self.database.url, **self.settings)
        self.processes.append(subprocess.Popen(tethered(control().command), cwd=ROOT, env=given))

    def number(self) -> int:
        with redis.Redis.from_url(self.valkey.url) as client:
            return int(client.info("server")["run_id"][:7], 16)

    def have(self, count: int) -> bool:
        """Whether so many of them have the lock of their Valkey's number, and all live."""
        assert [one.poll() for one in self.processes] == [None] * len(self.processes)
        with psycopg.connect(self.database.url) as connection:
            found = [number for (number,) in connection.execute(HELD).fetchall()]
        return found.count(self.number()) == count

    def kill(self) -> None:
        for one in self.processes:
            one.kill()
            one.wait()
        self.processes = []


@pytest.fixture
def servers() -> Iterator[list[Controls]]:
    with ExitStack() as at_end:
        database = at_end.enter_context(running())
        made = []
        for name in ("first", "second"):
            folder = at_end.enter_context(short_folder(f"ty-{name}-"))
            valkey = Valkey(folder / "valkey")
            valkey.start()
            at_end.callback(valkey.stop)
            made.append(Controls(folder / "home", database, valkey))
            at_end.callback(made[-1].kill)
        yield made


def test_another_control_needs_the_same_valkey_for_as_long_as_the_first_one_lives(servers: list[Controls]) -> None:
    first, second = servers
    first.begin()
    wait_until(lambda: first.have(1), "the first control has its lock")
    code, words = second.says()
    assert code == 1 and REFUSAL in words

    first.begin()
    wait_until(lambda: first.have(2), "a second control with the same Valkey has it too")

    first.valkey.kill()
    first.valkey.start()
    wait_until(lambda: first.have(2), "both go on with a Valkey that lost its data")

    first.database.stop()
    first.database.start_again()
    wait_until(lambda: first.have(2), "both outlive a restart of PostgreSQL")

    first.kill()
    second.begin()
    wait_until(lambda: second.have(1), "the other server may begin")
