"""Errors by which the database cannot be reached or used just now, and the answer then."""

import sqlite3

from django.db import InterfaceError, OperationalError

RETRY_S = 5
SENTENCE = "The database does not answer just now. Training goes on, and nothing that the nodes sent is lost."
FULL = "The disk of the database is full. Training goes on, and nothing that the nodes sent is lost."
FULL_CODES = (sqlite3.SQLITE_FULL, "53100")
# SQLite's primary result codes: busy, locked, read-only, input or output, full, cannot open.
SQLITE_CODES = frozenset({5, 6, 8, 10, 13, 14})
# PostgreSQL's classes of SQLSTATE: connection, operator intervention, insufficient resources.
SQLSTATES = ("08", "57P", "53")


def sentence_for(error: BaseException | None) -> str:
    """Return words about an error by which the database cannot be used."""
    cause = error.__cause__ if error is not None else None
    code = getattr(cause, "sqlite_errorcode", None) or getattr(cause, "sqlstate", None)
    return FULL if code in FULL_CODES else SENTENCE


def is_away(error: BaseException | None) -> bool:
    """Return whether trying again later may help. A statement that is wrong stays wrong."""
    if isinstance(error, InterfaceError):
        return True
    if not isinstance(error, OperationalError):
        return False
    cause = error.__cause__
    if isinstance(cause, sqlite3.Error):
        return (getattr(cause, "sqlite_errorcode", 0) & 0xFF) in SQLITE_CODES
    sqlstate = getattr(cause, "sqlstate", None)  # None: there was no connection that could have said one
    return sqlstate is None or str(sqlstate).startswith(SQLSTATES)
