"""PostgreSQL through its own programs: a copy of the database, and a database of a copy. The password goes by the
environment, never by an argument."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from dashboard.databases import postgresql
from dashboard.setup.machine import find_postgres_folder
from dashboard.up.checks import CannotStart

ROWS = (
    "SELECT count(*) FROM information_schema.tables WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'"
)


def dump(url: str, target: Path) -> None:
    """Write all of the database as it is at one moment, whoever writes meanwhile."""
    _run(url, "pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--file={target}")


def load(url: str, source: Path) -> None:
    """Fill an empty database, wholly or not at all."""
    words = ("--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges")
    _run(url, "pg_restore", *words, str(source))


def read_through(source: Path) -> None:
    """Read a copy to its end, without a database."""
    _run("", "pg_restore", f"--file={os.devnull}", str(source))


def refuse_tables(url: str) -> None:
    """Raise CannotStart where the database has tables, or cannot be reached."""
    import psycopg

    try:
        with psycopg.connect(_conninfo(url), connect_timeout=5) as connection:
            found = connection.execute(ROWS).fetchone()
    except psycopg.Error as error:
        raise CannotStart(f"The database cannot be reached: {str(error).strip().splitlines()[0]}") from error
    if found and found[0]:
        raise CannotStart(
            f"The database that DATABASE_URL names has {found[0]} tables. Make an empty one (createdb) and name that."
        )


def _conninfo(url: str) -> str:
    try:
        postgresql(url)
    except ValueError as error:
        raise CannotStart(str(error)) from error
    return url


def _run(url: str, name: str, *words: str) -> None:
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    program, environment = shutil.which(name), dict(os.environ)
    if program is None and (folder := find_postgres_folder()) and (folder / name).exists():
        program = str(folder / name)
    if program is None:
        raise CannotStart(f"{name} is not on this machine: install PostgreSQL's client programs, of its version.")
    if url:
        parts: dict[str, Any] = conninfo_to_dict(_conninfo(url))
        if password := parts.pop("password", None):
            environment["PGPASSWORD"] = str(password)
        words = (f"--dbname={make_conninfo(**parts)}", *words)
    done = subprocess.run(
        [program, *words], env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["it said nothing"]
        raise CannotStart(f"{name} ended with {done.returncode}: {said[0][:500]}")
