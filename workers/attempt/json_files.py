"""Documents on the node's disk: JSON files that are replaced as a whole and read as a type."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TypeVar

import structlog

from trainyard.contract.base import BadDocument, decode, encode
from trainyard.spooling.plain_files import create_plain, open_plain

log = structlog.get_logger(__name__)

T = TypeVar("T")

_refused: dict[Path, str] = {}  # damaged files that the log names already: many are read several times a second


def read_document(path: Path, kind: type[T]) -> T | None:
    """Return the document in the file. None where there is no such file, or where its content has another shape: the
    log then names the field, without its value."""
    try:
        with open_plain(path) as file:
            data = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EINVAL, errno.EAGAIN):
            raise
        return None  # a link, a pipe, or a file with a lease: a script made it
    try:
        return decode(data, kind, is_secret=True)  # an order holds a run's environment
    except BadDocument as error:
        if _refused.get(path) != str(error):
            _refused[path] = str(error)
            log.warning("file.refused", path=str(path), error=str(error))
        return None


def write_document(path: Path, document: object, *, mode: int = 0o600) -> None:
    """Replace the file as a whole, so that a reader never meets half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with create_plain(temporary) as file:
        file.write(encode(document).encode())
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
    temporary.replace(path)
