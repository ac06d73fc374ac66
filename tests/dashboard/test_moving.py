"""SQLite's rows in PostgreSQL: all of them with their numbers, or none."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from dashboard import moving
from dashboard.up.checks import CannotStart
from tests.dashboard.postgres_home import MAKE, NAMES, environment, new_database, running, said
from tests.servers import PostgreSQL
from tests.up_process import ROOT, new_home

FILL = (
    MAKE
    + """
from runs.rights.audit.facts import Act
from runs.rights.audit.recording import OK, record
gone = User.objects.create(username="gone", email="g@example.com")
gone.delete()
record(Act(actor="server", action="test.act", object="a thing", result=OK))
"""
)
LOOK = """
from dashboard.up.database import set_up_django
set_up_django()
from django.core.management import call_command
from runs.models import User
print(User.objects.create(username="after", email="a@example.com").pk)
call_command("audit", "verify")
"""
pytestmark = [pytest.mark.slow, pytest.mark.extended, pytest.mark.postgres]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSQL]:
    with running() as one:
        yield one


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = new_home(tmp_path_factory.mktemp("sqlite"))
    code, words = said(home, "", "-c", FILL)
    assert code == 0, words
    return home


def test_every_row_is_there_and_numbers_go_on(server: PostgreSQL, home: Path) -> None:
    code, words = said(home, server.url, "-m", "dashboard.moving")
    assert code == 0 and "runs_user: 1 rows" in words and "rows were copied and counted" in words, words
    for file in ("trainyard.sqlite3", "metrics.sqlite3"):
        with closing(sqlite3.connect(home / file)) as source, psycopg.connect(server.url) as target:
            for (table,) in source.execute(moving.TABLES).fetchall():
                count = f'SELECT count(*) FROM "{table}"'
                assert target.execute(count).fetchone() == source.execute(count).fetchone(), table
    code, words = said(home, server.url, "-c", NAMES)
    assert (code, words.strip()) == (0, "['owner'] of a hub")
    code, words = said(home, server.url, "-c", LOOK)
    assert words.startswith("4\n") and "intact" in words, "2 was given to somebody who is gone"
    code, words = said(home, server.url, "-m", "dashboard.moving")
    assert code == 1 and "trainyard on 127.0.0.1" in words and "is not empty: " in words and moving.AGAIN in words


def test_it_is_killed_in_the_middle_and_done_again(server: PostgreSQL, home: Path, tmp_path: Path) -> None:
    """Killed while it waits for a lock that we hold on a table in the middle."""
    url = new_database(server, "killed")
    code, words = said(home, url, "-c", MAKE.partition("from runs.actions")[0])
    assert code == 0, words
    with psycopg.connect(url) as connection:
        connection.execute("LOCK TABLE runs_user IN SHARE MODE")
        process = subprocess.Popen(
            [sys.executable, "-m", "dashboard.moving"], cwd=ROOT, env=environment(home, url), stdout=subprocess.PIPE
        )
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        deadline = time.monotonic() + 60
        while connection.execute(waiting).fetchone() == (0,):
            assert time.monotonic() < deadline and process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.communicate()
    code, words = said(home, url, "-m", "dashboard.moving")
    assert code == 0, words


def test_a_server_that_runs_and_a_home_without_files_are_refused(
    server: PostgreSQL, home: Path, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(home / "metrics.sqlite3")) as other:
        other.execute("SELECT count(*) FROM django_migrations").fetchone()
        with pytest.raises(CannotStart, match=r"metrics\.sqlite3 is in use: stop Trainyard first"):
            moving._opened(home / "metrics.sqlite3")
    code, words = said(tmp_path / "none", server.url, "-m", "dashboard.moving")
    assert code == 1 and "trainyard.sqlite3 is not there." in words
    code, words = said(home, "", "-m", "dashboard.moving")
    assert code == 1 and "DATABASE_URL is not set" in words
