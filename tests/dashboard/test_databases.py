"""Where rows live: two SQLite files with the pragmas that were chosen, or one PostgreSQL."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connections
from django.db.utils import ConnectionHandler

from dashboard.databases import DAYS, choose, num_shards, number, postgresql, share_connections
from runs.serving.database_away import is_away
from tests.servers import short_folder, start_postgresql


def test_without_a_url_there_are_two_files() -> None:
    databases, metrics = choose("", Path("/home"))
    assert {alias: str(one["NAME"]) for alias, one in databases.items()} == {
        "default": "/home/trainyard.sqlite3",
        "metrics": "/home/metrics.sqlite3",
    }
    assert metrics == "metrics"


def test_a_url_is_one_postgresql_for_both() -> None:
    databases, metrics = choose("postgresql://me:p%40ss@db.lab:6432/train?sslmode=require", Path("/home"))
    assert metrics == "default"
    one = databases["default"]
    found = [one[key] for key in ("NAME", "USER", "PASSWORD", "HOST", "PORT")]
    assert found == ["train", "me", "p@ss", "db.lab", "6432"]
    assert one["OPTIONS"]["sslmode"] == "require"


@pytest.mark.postgres
def test_threads_share_connections_and_a_lost_one_is_replaced(django_db_blocker: Any) -> None:
    with short_folder("ty-pool-") as folder, django_db_blocker.unblock():
        server = start_postgresql(folder)
        if server is None:
            pytest.skip("PostgreSQL's server programs are not on this machine")
        others = choose("", folder)[0]
        shared = ConnectionHandler({"default": others["default"], "pooled": postgresql(server.url)})
        share_connections(shared)

        def backend() -> int:
            connection = shared["pooled"]
            try:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT pg_backend_pid()")
                    return int(cursor.fetchone()[0])
            finally:
                connection.close_if_unusable_or_obsolete()  # what Django does at the end of a request

        def in_a_thread() -> int:
            with ThreadPoolExecutor(1) as thread:
                return thread.submit(backend).result()

        try:
            first = in_a_thread()
            assert in_a_thread() == first
            server.kill()
            server.start_again()
            assert in_a_thread() != first
            server.stop()
            with pytest.raises(OperationalError) as found:
                in_a_thread()
            assert is_away(found.value)
        finally:
            shared["pooled"].close_pool()  # type: ignore[attr-defined]
            server.stop()


def test_any_other_url_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="starts with 'mysql'"):
        choose("mysql://localhost/train", Path("/home"))


@pytest.mark.parametrize(("alias", "synchronous"), [("default", 1), ("metrics", 2)])
def test_the_files_have_the_pragmas_that_were_chosen(db: None, alias: str, synchronous: int) -> None:
    if alias not in connections or connections[alias].vendor != "sqlite":
        pytest.skip("these pragmas are SQLite's")
    with connections[alias].cursor() as cursor:
        found = {name: cursor.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "auto_vacuum")}
        assert found == {"journal_mode": "wal", "auto_vacuum": 2}
        assert cursor.execute("PRAGMA synchronous").fetchone()[0] == synchronous


def test_runs_are_spread_over_as_many_ingests_as_the_settings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    postgresql, _ = choose("postgresql://me@db/train", Path("/home"))
    sqlite, _ = choose("", Path("/home"))
    for text, databases, num in (("", sqlite, 1), ("1", sqlite, 1), ("8", postgresql, 8)):
        monkeypatch.setenv("INGEST_SHARDS", text)
        assert num_shards(databases) == num


@pytest.mark.parametrize("text", ["0", "-1", "two", "65"])
def test_what_is_no_number_of_shards_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGEST_SHARDS", text)
    with pytest.raises(ValueError, match="INGEST_SHARDS is a number from 1 to 64"):
        num_shards(choose("postgresql://me@db/train", Path("/home"))[0])


def test_sqlite_has_one_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INGEST_SHARDS", "2")
    with pytest.raises(ValueError, match="one writer"):
        num_shards(choose("", Path("/home"))[0])


def test_archived_runs_are_kept_for_ever_unless_days_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, days in (("", 0), ("0", 0), (" 30 ", 30)):
        monkeypatch.setenv("KEEP_ARCHIVED_DAYS", text)
        assert number("KEEP_ARCHIVED_DAYS", DAYS, 0) == days


@pytest.mark.parametrize("text", ["-1", "two", "1.5", "9" * 7])
def test_what_is_no_number_of_days_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEEP_ARCHIVED_DAYS", text)
    with pytest.raises(ValueError, match=f"KEEP_ARCHIVED_DAYS is a number of days, 0 or more, not '{text}'"):
        number("KEEP_ARCHIVED_DAYS", DAYS, 0)
