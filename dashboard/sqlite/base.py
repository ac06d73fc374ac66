"""SQLite whose connections are kept and lent again.

Under ASGI each request runs in a thread of its own, so that Django's CONN_MAX_AGE keeps nothing, and opening a file
with its pragmas costs 1.3 to 1.6 ms, twice a request: more than most questions. A closed connection goes back to a
pool of its file instead. Django does the same for PostgreSQL (``OPTIONS["pool"]``).
"""

import os
import sqlite3
import threading
from pathlib import Path
from typing import Any

from django.db.backends.sqlite3.base import DatabaseWrapper as DjangoWrapper

MAX_IDLE = 4  # connections of one file; each may hold 2 MB of its pages

Inode = tuple[int, int]


class Pool:
    """Idle connections by file. They lie in no transaction, and belong to nobody."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[Inode, list[sqlite3.Connection]] = {}
        self._inherited: list[object] = []
        os.register_at_fork(after_in_child=self._forget)

    def take(self, file: Inode | None) -> sqlite3.Connection | None:
        with self._lock:
            idle = self._idle.get(file) if file else None
            return idle.pop() if idle else None

    def put(self, file: Inode | None, connection: sqlite3.Connection) -> bool:
        """Keep the connection, if there is room; the caller closes it otherwise."""
        if file is None:
            return False
        with self._lock:
            idle = self._idle.setdefault(file, [])
            if len(idle) >= MAX_IDLE:
                return False
            idle.append(connection)
        return True

    def _forget(self) -> None:
        # A connection must not be used, nor closed, on the other side of a fork: keep it alive and never look at it.
        self._inherited.append(self._idle)
        self._lock = threading.Lock()
        self._idle = {}


pool = Pool()


class DatabaseWrapper(DjangoWrapper):
    """``file`` is the one that the connection has open: another may have taken its name since."""

    file: Inode | None = None
    has_failed = False  # Django forgets it at the next rollback

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "errors_occurred" and value:
            self.has_failed = True
        super().__setattr__(name, value)

    def get_new_connection(self, conn_params: dict[str, Any]) -> sqlite3.Connection:
        kept = pool.take(inode(conn_params["database"]))
        connection: sqlite3.Connection = super().get_new_connection(conn_params) if kept is None else kept
        self.file = inode(conn_params["database"])
        self.has_failed = False
        return connection

    def _close(self) -> None:
        connection = self.connection
        if connection is None:
            return
        if self._is_fit():
            connection.rollback()  # ends what a reader left open, too
            if pool.put(self.file, connection):
                return
        with self.wrap_database_errors:
            connection.close()

    def _is_fit(self) -> bool:
        """Return whether the connection may be reused: its file was not deleted or replaced, it is in no transaction,
        and it had no error."""
        is_same_file = self.file is not None and self.file == inode(self.settings_dict["NAME"])
        return is_same_file and not self.in_atomic_block and not self.has_failed


def inode(path: Any) -> Inode | None:
    """Return what identifies a file beside its name; None without a file."""
    try:
        found = Path(path).stat()
    except (OSError, ValueError, TypeError):
        return None
    return found.st_dev, found.st_ino
