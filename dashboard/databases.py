"""Databases: PostgreSQL by DATABASE_URL, else two SQLite files in the home; and which rows lie where."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from django.conf import settings
from django.db import connections
from django.db.models import Model
from django.db.utils import ConnectionHandler

T = TypeVar("T", int, float)
Database = dict[str, Any]
MAX_SHARDS = 64
# As psycopg_pool names them, in seconds but for sizes. Who finds PostgreSQL away waits for `timeout`.
POOL = {"min_size": 0, "max_size": 40, "max_idle": 60, "timeout": 5, "reconnect_timeout": 2}


def choose(url: str, home: Path) -> tuple[dict[str, Database], str]:
    """Return DATABASES and the alias of the metrics. Raises ValueError for a URL that is not PostgreSQL's."""
    if url:
        return {"default": postgresql(url)}, "default"
    return {
        "default": sqlite(home / "trainyard.sqlite3"),
        "metrics": sqlite(home / "metrics.sqlite3", is_synced=True),
    }, "metrics"


class Kind(NamedTuple, Generic[T]):
    """Numbers that a setting takes, in words and as a check."""

    words: str
    read: Callable[[str], T]
    fits: Callable[[float], bool]


SHARDS = Kind(f"a number from 1 to {MAX_SHARDS}", int, lambda one: 1 <= one <= MAX_SHARDS)
BYTES = Kind("a number of bytes, 0 for no limit", int, lambda one: 0 <= one < 10**18)
DAYS = Kind("a number of days, 0 or more", int, lambda one: 0 <= one < 100_000)  # 0: for ever
SECONDS = Kind("a number of seconds, 0 to 86400", float, lambda one: 0 <= one <= 86_400)
RATE = Kind(
    "a number of requests a second from 0.01, or 0 for no limit", float, lambda one: one == 0 or 0.01 <= one <= 1e6
)


def number(name: str, kind: Kind[T], default: T) -> T:
    """Return a setting of the environment. Raises ValueError, which names it, for what is no such number."""
    text = os.environ.get(name, "").strip()
    try:
        if kind.fits(found := kind.read(text) if text else default):
            return found
    except ValueError:  # no number at all
        pass
    raise ValueError(f"{name} is {kind.words}, not {text!r}.")


def num_shards(databases: dict[str, Database]) -> int:
    """Return over how many ingest processes runs are spread. Raises ValueError for what is no such number."""
    found = number("INGEST_SHARDS", SHARDS, 1)
    if found > 1 and "metrics" in databases:
        raise ValueError("INGEST_SHARDS above 1 needs PostgreSQL (DATABASE_URL): a SQLite file has one writer.")
    return found


def sqlite(path: Path, *, is_synced: bool = False) -> Database:
    """SQLite in WAL. ``is_synced``: a commit is on the disk when it returns.

    auto_vacuum comes first: it can only be chosen before the first page is written, which journal_mode does.
    """
    pragmas = ("auto_vacuum=INCREMENTAL", "journal_mode=WAL", f"synchronous={'FULL' if is_synced else 'NORMAL'}")
    return {
        "ENGINE": "dashboard.sqlite",
        "NAME": path,
        "OPTIONS": {
            "timeout": 10,
            "transaction_mode": "IMMEDIATE",
            "init_command": ";".join(f"PRAGMA {pragma}" for pragma in pragmas),
        },
        # Tests use a file as service does: several processes and threads open it, and WAL is not for memory.
        "TEST": {"NAME": path.with_name(f"test-{path.name}")},
    }


def postgresql(url: str) -> Database:
    """PostgreSQL from ``postgresql://user:password@host:port/name?option=value``.

    Each thread connects as it needs it, unless the process shares its connections.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("postgresql", "postgres"):
        raise ValueError(f"DATABASE_URL starts with {parts.scheme!r}; Trainyard knows postgresql:// and SQLite, unset.")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or ""),
        "PORT": str(parts.port or ""),
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": True,  # of shared ones: PostgreSQL may have been started again since
        "OPTIONS": {"connect_timeout": 3, **dict(parse_qsl(parts.query))},
    }


def share_connections(handler: ConnectionHandler = connections) -> None:
    """Keep connections to PostgreSQL for all threads of this process: under ASGI each request has one of its own."""
    for database in handler.settings.values():
        if "postgresql" in database["ENGINE"]:
            database["OPTIONS"]["pool"] = POOL


class MetricsRouter:
    """Send the metrics app to settings.METRICS_DATABASE (an alias, "default" where one PostgreSQL serves both)."""

    def db_for_read(self, model: type[Model], **hints: Any) -> str:
        return _alias(model._meta.app_label)

    db_for_write = db_for_read

    def allow_relation(self, one: Model, other: Model, **hints: Any) -> bool:
        return _alias(one._meta.app_label) == _alias(other._meta.app_label)

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        return db == _alias(app_label)


def _alias(app_label: str) -> str:
    return str(settings.METRICS_DATABASE) if app_label == "metrics" else "default"
