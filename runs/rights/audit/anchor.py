"""The newest row that this server knows of, in a file outside of the database, sealed with the server's secret.

Whoever can write the database alone can take the newest rows away and put an older head back, whose seal is true. The
file then names a row that is missing. It goes on from row to row, and never from one that the database lacks: rows that
come later hide nothing. Several servers may share the file or have one each; each names a row that was there.
"""

import fcntl
import hmac
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import structlog
from django.conf import settings
from django.db import DatabaseError
from django.utils.crypto import salted_hmac

from runs.models.security import AuditEntry, AuditHead

log = structlog.get_logger(__name__)

LENGTH = 150  # bytes, always as many: a line that is written over another needs no second file


class BadAnchor(ValueError):
    """The file was not written with the server's secret."""


class Anchor(NamedTuple):
    sequence: int
    hash: str

    @property
    def line(self) -> str:
        text = f"{self.sequence:020d} {self.hash}"
        return f"{text} {salted_hmac('runs.audit.anchor', text, algorithm='sha256').hexdigest()}"

    def is_there(self) -> bool:
        """Return whether the database has the row, or retention removed it."""
        if AuditEntry.objects.filter(sequence=self.sequence, hash=self.hash).exists():
            return True
        cut = AuditHead.objects.filter(pk=1, cut_sequence__gte=self.sequence).first()
        return cut is not None and (cut.cut_sequence > self.sequence or cut.cut_hash == self.hash)


def read() -> Anchor | None:
    """Return what the file has; None before its first row. Raises BadAnchor and OSError."""
    try:
        with path().open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            return _parsed(file.read())
    except FileNotFoundError:
        return None


def advance(row: AuditEntry) -> None:
    """Remember the row, which is in the database now, unless one that is remembered is missing there."""
    new = Anchor(row.sequence, row.hash)
    try:
        with _held() as file:
            known = _parsed(os.pread(file, LENGTH, 0))
            is_next = known is None or known == (row.sequence - 1, row.previous_hash)
            if known is not None and not is_next and not known.is_there():
                log.critical("audit.rows_missing", row=known.sequence, hash=known.hash)
            elif known is None or known.sequence < new.sequence:
                os.pwrite(file, new.line.encode(), 0)
                if known is None:
                    os.fsync(file)  # from now on it is written over, and never shorter
    except (OSError, BadAnchor, DatabaseError) as error:
        log.critical("audit.head_not_kept", error=str(error))


def forget() -> None:
    path().unlink(missing_ok=True)


def path() -> Path:
    return Path(settings.AUDIT_HEAD_FILE)


def _parsed(content: bytes) -> Anchor | None:
    if not content:
        return None
    try:
        sequence, digest, _ = content.decode().split(" ")
        found = Anchor(int(sequence), digest)
    except ValueError:
        raise BadAnchor(f"{path()} cannot be read.") from None
    if not hmac.compare_digest(found.line.encode(), content):
        raise BadAnchor(f"{path()} was not written with this server's SECRET_KEY.")
    return found


@contextmanager
def _held() -> Iterator[int]:
    """Yield the open file. Whoever else writes it waits."""
    path().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(path(), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(file)
