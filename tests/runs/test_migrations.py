"""A new database has all tables at once; one that grew with the migrations, one by one, has the same."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.servers import PostgreSQL, short_folder, start_postgresql

ROOT = Path(__file__).resolve().parents[2]
# What `up` does, in an interpreter of its own: the first argument says how far the old migrations go before it.
PROGRAM = """
import sys
from dashboard.up.database import open_database, set_up_django
set_up_django()
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
for last in sys.argv[1:]:
    connection.ensure_connection()
    executor = MigrationExecutor(connection)
    executor.loader = MigrationLoader(connection, replace_migrations=False)
    executor.migrate([("runs", last)])
print(open_database(), open_database())
"""
HALF_WAY = "0040_sign_in"  # the last but one of those that one migration stands for
OF_TABLES = """
    SELECT table_name, column_name, data_type, character_maximum_length, is_nullable, column_default, is_generated,
           generation_expression
    FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2
"""
OF_INDEXES = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1"
OF_CONSTRAINTS = """
    SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2, 3
"""
OF_TRIGGERS = "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSQL]:
    with short_folder("ty-grown-") as folder:
        server = start_postgresql(folder)
        if server is None:
            pytest.skip("PostgreSQL's server programs are not on this machine")
        yield server
        server.stop()


def shape(server: PostgreSQL, name: str, home: Path, *first: str) -> dict[str, list[Any]]:
    """Make a database by `up`'s own function, after the old migrations up to ``first``, and return what it holds."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    url = re.sub(r"/[^/?]+(?=\?|$)", f"/{name}", server.url)
    environment = {**os.environ, "DATABASE_URL": url, "TRAINYARD_HOME": str(home)}
    home.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *first], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1] == "0", "nothing is left to do at the next start"
    with psycopg.connect(url) as connection:
        queries = {"tables": OF_TABLES, "indexes": OF_INDEXES, "constraints": OF_CONSTRAINTS, "triggers": OF_TRIGGERS}
        return {what: connection.execute(query).fetchall() for what, query in queries.items()}


@pytest.mark.extended
@pytest.mark.timeout(300)
def test_a_database_that_grew_has_what_a_new_one_has(server: PostgreSQL, tmp_path: Path) -> None:
    new = shape(server, "new", tmp_path / "new")
    assert len(new["triggers"]) >= 1 and len({row[0] for row in new["tables"]}) > 60
    for what, rows in shape(server, "grown", tmp_path / "grown", HALF_WAY).items():
        other = set(rows) ^ set(new[what])
        assert not other, what
