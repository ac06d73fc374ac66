"""Connections to SQLite are lent again, and never across a file, a fork or a transaction."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import OperationalError, connections, transaction
from pytest_django import DjangoDbBlocker

from dashboard.databases import sqlite
from dashboard.sqlite.base import MAX_IDLE, DatabaseWrapper, inode, pool


def wrapper(path: Path) -> DatabaseWrapper:
    settings = {**connections["default"].settings_dict, **sqlite(path)}
    return DatabaseWrapper(settings, "lent")


def opened(one: DatabaseWrapper) -> sqlite3.Connection:
    with one.cursor() as cursor:
        cursor.execute("SELECT 1")
    connection: sqlite3.Connection = one.connection
    return connection


@pytest.fixture
def path(tmp_path: Path, django_db_blocker: DjangoDbBlocker) -> Iterator[Path]:
    with django_db_blocker.unblock():
        yield tmp_path / "some.sqlite3"
    while (idle := pool.take(inode(tmp_path / "some.sqlite3"))) is not None:
        idle.close()


def test_a_closed_connection_is_lent_again(path: Path) -> None:
    one, other = wrapper(path), wrapper(path)
    first = opened(one)
    assert opened(other) is not first, "it is somebody's"
    one.close()
    third = wrapper(path)
    assert opened(third) is first
    with third.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode")
        assert cursor.fetchone() == ("wal",)
    for each in (other, third):
        each.close()


def test_no_more_are_kept_than_may_be(path: Path) -> None:
    many = [wrapper(path) for _ in range(MAX_IDLE + 1)]
    last = [opened(one) for one in many][-1]
    for one in many:
        one.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        last.execute("SELECT 1")


def test_what_a_transaction_left_open_is_gone(path: Path) -> None:
    one = wrapper(path)
    with one.cursor() as cursor:
        cursor.execute("CREATE TABLE told (number)")
        cursor.execute("BEGIN DEFERRED")
        cursor.execute("INSERT INTO told VALUES (1)")
    one.close()
    again = wrapper(path)
    with again.cursor() as cursor:
        cursor.execute("SELECT * FROM told")
        assert cursor.fetchall() == []
    assert not again.connection.in_transaction
    again.close()


def test_one_that_is_closed_inside_a_transaction_is_not_lent(path: Path) -> None:
    one = wrapper(path)
    first = opened(one)
    connections["lent"] = one
    try:
        with transaction.atomic(using="lent"):
            one.close()
    finally:
        del connections["lent"]
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        first.execute("SELECT 1")


def test_one_that_failed_is_not_lent(path: Path) -> None:
    one = wrapper(path)
    first = opened(one)
    with pytest.raises(OperationalError), one.cursor() as cursor:
        cursor.execute("SELECT * FROM nothing")
    one.rollback()
    one.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        first.execute("SELECT 1")


def test_a_file_of_the_same_name_is_another(path: Path) -> None:
    one = wrapper(path)
    first = opened(one)
    one.close()
    path.rename(path.with_name("old.sqlite3"))  # not deleted: its number might be given again
    again = wrapper(path)
    assert opened(again) is not first
    again.close()


def test_a_forked_child_has_none_of_its_parents(path: Path) -> None:
    one = wrapper(path)
    opened(one)
    one.close()
    child = os.fork()
    if child == 0:
        os._exit(7 if pool.take(inode(path)) is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    kept = pool.take(inode(path))
    assert kept is not None
    kept.close()
