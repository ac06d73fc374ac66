"""`trainyard to-postgresql`: copy the rows of this home's two SQLite files into the PostgreSQL of DATABASE_URL.

All of it is one transaction there: every row is in it, and counted, or none. The SQLite files are only read, and nobody
else may have them open meanwhile.
"""

import argparse
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from dashboard.backup import METRICS, PRODUCT
from dashboard.home import home_path
from dashboard.up import database
from dashboard.up.checks import CannotStart

AT_ONCE, SAY_EVERY_S = 1_000, 5.0
TABLES = (
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'django_migrations'"
)
COLUMNS = """SELECT column_name, data_type = 'interval', is_identity = 'YES' FROM information_schema.columns
WHERE table_schema = current_schema() AND table_name = %s AND is_generated = 'NEVER' ORDER BY ordinal_position"""
MADE_BY_MIGRATE = {"django_content_type", "auth_permission"}  # in a new database; the rows of SQLite take their place
AGAIN = "Nothing was copied: the database is as it was, and the same command may be given again."


def main(arguments: list[str] | None = None) -> int:
    words = "Copy this home's SQLite files into the PostgreSQL of DATABASE_URL. Stop Trainyard first."
    argparse.ArgumentParser(prog="trainyard to-postgresql", description=words).parse_args(arguments)
    home = home_path()
    try:
        num_rows = move(home)
    except (CannotStart, sqlite3.Error, KeyboardInterrupt) as error:
        print(f"{str(error) or 'Interrupted.'} {AGAIN}", file=sys.stderr)
        return 1
    print(f"{num_rows:,} rows were copied and counted. Start Trainyard with DATABASE_URL from now on; {PRODUCT} and")
    print(f"{METRICS} in {home} are as they were: keep them with your backups, then delete them.")
    return 0


def move(home: Path) -> int:
    """Return how many rows were copied."""
    database.set_up_django()
    import psycopg
    from django.db import Error, connection, transaction
    from django.db.migrations.recorder import MigrationRecorder

    if connection.vendor != "postgresql":
        raise CannotStart("DATABASE_URL is not set: it names an empty database of PostgreSQL.")
    place = database.place_of(connection.settings_dict)
    with closing(_opened(home / PRODUCT)) as product, closing(_opened(home / METRICS)) as metrics:
        database.open_database(is_restored=True)
        known = set(product.execute("SELECT app, name FROM django_migrations"))
        if behind := set(MigrationRecorder(connection).applied_migrations()) - known:
            raise CannotStart(f"{PRODUCT} lacks {len(behind)} migrations: `trainyard migrate` without DATABASE_URL.")
        tables = [(source, name) for source in (product, metrics) for (name,) in source.execute(TABLES)]
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                for _, name in tables:
                    cursor.execute(f'SELECT count(*) FROM "{name}"')
                    if name not in MADE_BY_MIGRATE and (found := cursor.fetchone()[0]):
                        raise CannotStart(f"{place} is not empty: {name} has {found:,} rows. Name an empty database.")
                cursor.execute(f"TRUNCATE {', '.join(name for _, name in tables)}")
                return sum(_copy(source, cursor, name) for source, name in tables)
        except (Error, psycopg.Error) as error:
            raise CannotStart(f"{place} refused: {str(error).strip().splitlines()[0]}.") from error


def _opened(path: Path) -> sqlite3.Connection:
    """Open the file for us alone: of a WAL, that is refused while another process has it open."""
    if not path.exists():
        raise CannotStart(f"{path} is not there.")
    source = sqlite3.connect(path, timeout=1)
    try:
        source.execute("PRAGMA locking_mode=EXCLUSIVE")
        source.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        source.close()
        raise CannotStart(f"{path} is in use: stop Trainyard first.") from error
    return source


def _copy(source: sqlite3.Connection, cursor: Any, table: str) -> int:
    """Copy and count one table, and have its numbers go on behind the largest that was ever given."""
    cursor.execute(COLUMNS, [table])
    columns = cursor.fetchall()
    names = ", ".join(f'"{name}"' for name, _, _ in columns)
    num_rows, num_copied, said_at = source.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0], 0, time.monotonic()
    found = source.execute(f'SELECT {names} FROM "{table}"')
    with cursor.copy(f'COPY "{table}" ({names}) FROM STDIN') as copy:
        while rows := found.fetchmany(AT_ONCE):
            for row in rows:
                pairs = zip(row, columns, strict=True)
                copy.write_row([f"{value} us" if kind[1] and value is not None else value for value, kind in pairs])
            num_copied += len(rows)
            if time.monotonic() - said_at > SAY_EVERY_S:
                said_at = time.monotonic()
                print(f"{table}: {num_copied:,} of {num_rows:,} rows", flush=True)
    cursor.execute(f'SELECT count(*) FROM "{table}"')
    if (stored := cursor.fetchone()[0]) != num_rows:
        raise CannotStart(f"{table} has {stored:,} rows of {num_rows:,}.")
    for name in [name for name, _, is_identity in columns if is_identity]:
        given = source.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", [table]).fetchone() or (0,)
        if last := max(given[0], source.execute(f'SELECT max("{name}") FROM "{table}"').fetchone()[0] or 0):
            cursor.execute("SELECT setval(pg_get_serial_sequence(%s, %s), %s)", [table, name, last])
    print(f"{table}: {num_rows:,} rows", flush=True)
    return int(num_rows)


if __name__ == "__main__":
    sys.exit(main())
