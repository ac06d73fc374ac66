"""PostgreSQL through its own programs: a copy of the database, and a database of a copy. The password goes by the
environment, never by an argument."""

import contextlib
import os
import shutil
import subprocess
from typing import Any

from dashboard.postgres_programs import find_postgres_folder
from dashboard.up.checks import CannotStart

TABLES = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()"


def refuse_tables(url: str) -> None:
    """Raise CannotStart where the database has tables, or cannot be reached."""
    import psycopg

    try:
        with psycopg.connect(**_parts(url)) as connection:
            found = connection.execute(TABLES).fetchone()
    except psycopg.Error as error:
        raise CannotStart(f"The database cannot be reached: {str(error).strip().splitlines()[0]}") from error
    if found and found[0]:
        raise CannotStart(f"DATABASE_URL names a database with {found[0]} tables: make an empty one (createdb).")


def _parts(url: str) -> dict[str, Any]:
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    with contextlib.suppress(ProgrammingError):  # whose words quote a password
        if url.startswith(("postgresql://", "postgres://")):
            return {"connect_timeout": "5", **conninfo_to_dict(url)}
    raise CannotStart("DATABASE_URL is no address of PostgreSQL, such as postgresql://user:password@host:port/name.")


def run(url: str, name: str, *words: str) -> None:
    """Run a program with the database of ``url``, where it is not empty. Raises CannotStart."""
    from psycopg.conninfo import make_conninfo

    program, environment = shutil.which(name), dict(os.environ)
    if program is None and (folder := find_postgres_folder()) and (folder / name).exists():
        program = str(folder / name)
    if program is None:
        raise CannotStart(f"{name} is not on this machine: install PostgreSQL's client programs, of its version.")
    if url:
        parts = _parts(url)
        environment["PGPASSWORD"] = str(parts.pop("password", environment.get("PGPASSWORD", "")))
        words = (f"--dbname={make_conninfo(**parts)}", *words)
    done = subprocess.run(
        [program, *words], env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["it said nothing"]
        raise CannotStart(f"{name} ended with {done.returncode}: {said[0][:500]}")
