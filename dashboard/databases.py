"""Databases: PostgreSQL by DATABASE_URL, else two SQLite files in the home; and which rows lie where."""

from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django.conf import settings
from django.db.models import Model

Database = dict[str, Any]
MAX_SHARDS = 64


def choose(url: str, home: Path) -> tuple[dict[str, Database], str]:
    """Return DATABASES and the alias of the metrics. Raises ValueError for a URL that is not PostgreSQL's."""
    if url:
        return {"default": postgresql(url)}, "default"
    return {
        "default": sqlite(home / "trainyard.sqlite3"),
        "metrics": sqlite(home / "metrics.sqlite3", is_synced=True),
    }, "metrics"


def num_shards(text: str, databases: dict[str, Database]) -> int:
    """Return over how many ingest processes runs are spread. Raises ValueError for what is no such number."""
    if not text:
        return 1
    if not (text.isascii() and text.isdigit() and len(text) < 9 and 1 <= int(text) <= MAX_SHARDS):
        raise ValueError(f"INGEST_SHARDS is a number from 1 to {MAX_SHARDS}, not {text!r}.")
    if int(text) > 1 and "metrics" in databases:
        raise ValueError("INGEST_SHARDS above 1 needs PostgreSQL (DATABASE_URL): a SQLite file has one writer.")
    return int(text)


def num_bytes(name: str, text: str, default: int) -> int:
    """Return a number of bytes, 0 for no limit. Raises ValueError for what is none."""
    if text and not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ValueError(f"{name} is a number of bytes, 0 for no limit, not {text!r}.")
    return int(text) if text else default


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

    Connections are not kept: every request under ASGI has a thread of its own, and a kept one would be left behind.
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
        "OPTIONS": {"connect_timeout": 3, **dict(parse_qsl(parts.query))},
    }


def num_seconds(name: str, text: str, default: float) -> float:
    """Return a setting in seconds. Raises ValueError for what is no number of them."""
    found = _number(text, default)
    if not 0.0 <= found <= 86_400.0:
        raise ValueError(f"{name} is a number of seconds, 0 to 86400, not {text!r}.")
    return found


def rate(name: str, text: str, default: float) -> float:
    """Return a number of requests a second, 0 for no limit. Raises ValueError for what is none."""
    found = _number(text, default)
    if not (found == 0 or 0.01 <= found <= 1e6):
        raise ValueError(f"{name} is a number of requests a second from 0.01, or 0 for no limit, not {text!r}.")
    return found


def _number(text: str, default: float) -> float:
    try:
        return float(text) if text.strip() else default
    except ValueError:
        return -1.0


def num_days(text: str, name: str = "KEEP_ARCHIVED_DAYS") -> int:
    """Return the days that something is kept; 0: for ever. Raises ValueError for what is no number of days."""
    if text.strip() and not (text.strip().isascii() and text.strip().isdigit() and len(text.strip()) < 6):
        raise ValueError(f"{name} is a number of days, 0 or more, not {text!r}.")
    return int(text or 0)


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
