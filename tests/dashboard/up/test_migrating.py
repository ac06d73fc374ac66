"""`trainyard migrate` that is killed in the middle is run again."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg
import pytest

from tests.dashboard.postgres_home import environment, running, said
from tests.up_process import ROOT, new_home, wait_until

COUNT = "SELECT count(*) FROM django_migrations"
pytestmark = [pytest.mark.slow, pytest.mark.extended, pytest.mark.postgres, pytest.mark.timeout(900)]


@pytest.fixture
def postgresql_url() -> Iterator[str]:
    with running() as server:
        yield server.url


def applied_in_postgresql(url: str) -> int:
    with psycopg.connect(url) as connection:
        return applied(lambda: connection.execute(COUNT).fetchone())


def applied_in_sqlite(home: Path) -> int:
    with closing(sqlite3.connect(home / "trainyard.sqlite3", timeout=30)) as connection:
        return applied(lambda: connection.execute(COUNT).fetchone())


def applied(ask: Callable[[], tuple[int] | None]) -> int:
    try:
        return (ask() or (0,))[0]
    except (sqlite3.Error, psycopg.Error):
        return 0


def is_at(num_applied: Callable[[], int], least: int) -> bool:
    return num_applied() >= least


def kill_and_finish(home: Path, url: str, num_applied: Callable[[], int]) -> None:
    for least in (1, 20):
        process = subprocess.Popen(
            [sys.executable, "-m", "dashboard.serve", "migrate"], cwd=ROOT, env=environment(home, url),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        wait_until(partial(is_at, num_applied, least), f"{least} migrations", 240)
        assert process.poll() is None
        process.kill()
        process.wait()
    before = num_applied()
    code, words = said(home, url, "-m", "dashboard.serve", "migrate")
    assert code == 0 and "migrations were applied" in words and num_applied() > before
    code, words = said(home, url, "-m", "dashboard.serve", "migrate")
    assert code == 0 and words.startswith("0 migrations were applied")


def test_on_postgresql(tmp_path: Path, postgresql_url: str) -> None:
    home = new_home(tmp_path, is_migrated=False)
    kill_and_finish(home, postgresql_url, lambda: applied_in_postgresql(postgresql_url))


def test_on_sqlite(tmp_path: Path) -> None:
    home = new_home(tmp_path, is_migrated=False)
    kill_and_finish(home, "", lambda: applied_in_sqlite(home))
