"""`up` on a PostgreSQL and a Valkey that somebody else runs: DATABASE_URL and REDIS_URL are used when set."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from dashboard.up.parent_death import tethered
from dashboard.up.valkey import server_program
from tests.servers import free_port, short_folder, start_postgresql
from tests.up_process import Up, new_home
from tests.whole.runs import Yard, example

PASSWORD = "correct-horse"


@contextmanager
def valkey_on_tcp(folder: Path, *, address: str = "127.0.0.1") -> Iterator[str]:
    """A server with a password on a port of this address of the machine; yields its URL."""
    port = free_port()
    settings = {"port": port, "bind": address, "requirepass": PASSWORD, "dir": folder, "save": ""}
    words = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
    process = subprocess.Popen(tethered([server_program(), *words]), stdout=subprocess.DEVNULL)
    url = f"redis://:{PASSWORD}@{address}:{port}/0"
    try:
        wait_for(url)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=10)


def wait_for(url: str) -> None:
    deadline = time.monotonic() + 10
    with redis.Redis.from_url(url) as client:
        while True:
            try:
                client.ping()
            except redis.ConnectionError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            else:
                return


@pytest.mark.slow
@pytest.mark.extended
@pytest.mark.postgres
def test_a_run_trains_on_postgresql_and_a_valkey_with_a_password() -> None:
    with short_folder("ty-own-") as folder, short_folder("ty-pg-") as of_postgresql:
        database = start_postgresql(of_postgresql)
        if database is None:
            pytest.skip("PostgreSQL's server programs are not on this machine")
        try:
            with valkey_on_tcp(folder) as redis_url:
                up = Up(new_home(folder, is_migrated=False), NODES="1", DATABASE_URL=database.url, REDIS_URL=redis_url)
                try:
                    up.wait_until_said("Nodes in contact")
                    assert not list((folder / "home").glob("*.sqlite3"))
                    assert "valkey" not in up.processes()
                    check_a_run(up)
                    assert PASSWORD not in up.output
                finally:
                    up.close()
        finally:
            database.stop()


def check_a_run(up: Up) -> None:
    spec = example("tiny-steps", steps=20, validate_every_steps=10, warmup_steps=1)
    spec["resources"]["nodes"] = 1
    with Yard(up) as yard:
        run_id = yard.submit(spec)
        run = yard.wait_for_end(run_id)
        assert run["status"] == "SUCCEEDED", run["reason"]
        assert yard.steps(run_id, "train/loss") == {"[]": list(range(1, 21))}
