"""Rank 0's output folder goes to the server when the attempt is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import structlog

from workers.attempts import AttemptFolder
from workers.contract import Document
from workers.node.rest import ServerClient, problem_of

log = structlog.get_logger(__name__)

FILE_LIMIT_BYTES = 2 * 1024**3
TOTAL_LIMIT_BYTES = 10 * 1024**3


def upload_output(order: Document, folder: AttemptFolder, server: ServerClient) -> None:
    """Send every file, then leave a mark. Repeating it is harmless. Raises httpx.HTTPError to be tried again."""
    for name, path in files_in(folder.output):
        try:
            server.put_file(order["run"], order["fence"], name, path)
        except httpx.HTTPStatusError as error:
            if error.response.status_code >= 500:
                raise
            log.warning("output.refused", run=order["run"], file=name, why=problem_of(error.response))
    folder.uploaded_mark.touch()


def files_in(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield name and path of each regular file inside, within the limits; links lead nowhere."""
    left = TOTAL_LIMIT_BYTES
    for path in sorted(root.rglob("*")):
        if path.is_symlink() or not path.is_file() or not path.resolve().is_relative_to(root.resolve()):
            continue
        name, size = path.relative_to(root).as_posix(), path.stat().st_size
        if size > min(FILE_LIMIT_BYTES, left):
            log.warning("output.too_large", file=name, size_bytes=size)
            continue
        left -= size
        yield name, path
