"""The list of erasures as a file: what outlives the database, so that an older copy of it does not bring people back.

A line is JSON with a seal made with the server's secret: nobody else can have people erased by adding one.
"""

import fcntl
import hmac
import json
import os
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.utils.crypto import salted_hmac

from runs.models import ErasedPerson, User
from trainyard.contract.base import BadDocument, WireStruct, decode

SALT = "runs.privacy.tombstones"


class BadList(ValueError):
    """A line of the list was not written by this server."""


class Tombstone(WireStruct):
    """One erased person, as a line of the list."""

    number: int
    digest: str
    at: str
    runs: list[str]
    seal: str = ""


def digest_of(user: User) -> str:
    """Return what tells the person from whoever else gets the number: keyed, so that it is a guess for nobody."""
    # In whole seconds: a form of the admin knows no less.
    return _keyed(f"{user.pk}|{int(user.date_joined.timestamp())}")


def line_of(row: ErasedPerson) -> str:
    content = _content(row.number, row.digest, row.at.isoformat(), row.runs)
    return json.dumps({**json.loads(content), "seal": _keyed(content)}, separators=(",", ":"))


def parsed(lines: Iterable[str]) -> list[ErasedPerson]:
    """Return the rows of a list, which are not saved. Raises BadList, naming the line."""
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            one = decode(line.encode(), Tombstone)
            at = datetime.fromisoformat(one.at)
        except (BadDocument, ValueError) as error:
            raise BadList(f"Line {number} of the list of erasures cannot be read: {error}") from error
        if not hmac.compare_digest(one.seal, _keyed(_content(one.number, one.digest, one.at, one.runs))):
            raise BadList(f"Line {number} of the list of erasures was not written with this server's SECRET_KEY.")
        found.append(ErasedPerson(number=one.number, digest=one.digest, at=at, runs=one.runs))
    return found


def list_path() -> Path:
    return Path(settings.ERASURES_FILE)


def read_list(path: Path) -> list[ErasedPerson]:
    """Return the rows of the file; none where there is no file. Raises BadList and OSError."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    whole, _, _ = text.rpartition("\n")  # what stands behind the last line was cut off while it was written
    return parsed(whole.split("\n"))


def append(row: ErasedPerson) -> None:
    """Add a line, which is on the disk when this returns."""
    path = list_path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(file.read().rfind(b"\n") + 1)  # over a line that was cut off
        file.truncate()
        file.write(f"{line_of(row)}\n".encode())
        file.flush()
        os.fsync(file.fileno())


def _content(number: int, digest: str, at: str, runs: list[str]) -> str:
    return json.dumps({"number": number, "digest": digest, "at": at, "runs": sorted(runs)}, separators=(",", ":"))


def _keyed(text: str) -> str:
    return salted_hmac(SALT, text, secret=settings.SECRET_KEY, algorithm="sha256").hexdigest()
