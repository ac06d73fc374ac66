"""A home whose database is a real PostgreSQL, and programs of ours that run in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.servers import PostgreSQL, short_folder, start_postgresql
from tests.up_process import OURS, ROOT

MAKE = """
from dashboard.up.checks import prepare_home
from dashboard.up.database import open_database, set_up_django
from dashboard.home import home_path
prepare_home(home_path())
set_up_django(); open_database()
from runs.actions import first_start
from runs.models import Project, User
from runs.rights.secrets import store
me = first_start()
store.keep(owner=Project.objects.first(), name="TOKEN", value="of a hub", by=me)
"""
NAMES = """
from dashboard.up.database import set_up_django
set_up_django()
from runs.models import Secret, User
from runs.rights.secrets import store
print(sorted(User.objects.values_list("username", flat=True)), store.open_newest(Secret.objects.get())[1])
User.objects.create(username="next", email="n@example.com")
"""


@contextmanager
def running() -> Iterator[PostgreSQL]:
    with short_folder("ty-pg-") as folder:
        server = start_postgresql(folder)
        if server is None:
            pytest.skip("PostgreSQL's server programs are not on this machine")
        try:
            yield server
        finally:
            server.stop()


def new_database(server: PostgreSQL, name: str) -> str:
    """Make an empty one and return its URL."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.url.rpartition("/")[0] + f"/{name}"


def environment(home: Path, url: str = "", **changes: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return {**inherited, "TRAINYARD_HOME": str(home), **({"DATABASE_URL": url} if url else {}), **changes}


def said(home: Path, url: str, *words: str, **changes: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment(home, url, **changes), capture_output=True, text=True,
        check=False, timeout=200,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr
