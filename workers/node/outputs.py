"""Rank 0's output folder goes to the server when the attempt is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import structlog

from workers.attempts import AttemptFolder
from workers.contract import OUTPUT_NAMED, Document
from workers.node.rest import ServerClient, problem_of

log = structlog.get_logger(__name__)

FILE_LIMIT_BYTES = 2 * 1024**3
TOTAL_LIMIT_BYTES = 10 * 1024**3
# What trying again would not change: no such run, a newer attempt, a run that takes no more, too large, no such name.
REFUSALS = frozenset({404, 409, 410, 413, 422})


def upload_output(order: Document, folder: AttemptFolder, server: ServerClient) -> None:
    """Send every file that was not sent yet, then leave a mark. What the server refuses for good is written down, and
    stands on the run's page. Raises httpx.HTTPError, after all files were tried, when one is to be tried again."""
    state = folder.output_sent()
    sent, refused = dict(state["sent"]), dict(state["refused"])
    waiting: httpx.HTTPStatusError | None = None
    try:
        for name, path in files_in(folder.output):
            if sent.get(name) == (stamp := stamp_of(path)) or name in refused:
                continue
            try:
                server.put_file(order["run"], order["fence"], name, path)
                sent[name] = stamp
            except httpx.HTTPStatusError as error:
                if is_refusal(error):
                    refused[name] = problem_of(error.response)
                    log.warning("output.refused", run=order["run"], file=name, why=refused[name])
                else:
                    waiting = error
    finally:
        if {"sent": sent, "refused": refused} != state:
            folder.record_output({"sent": sent, "refused": refused})
    if waiting is not None:
        raise waiting
    folder.uploaded_mark.touch()


def is_refusal(error: httpx.HTTPStatusError) -> bool:
    """Whether the server will never take it. A seal that is too old, a full disk, a busy server are no refusals."""
    return error.response.status_code in REFUSALS


def output_document(folder: AttemptFolder) -> Document:
    """Return the Output of workers.contract, for the up document."""
    refused = folder.output_sent()["refused"]
    named = {name[:200]: refused[name][:300] for name in sorted(refused)[:OUTPUT_NAMED]}
    return {"problem": folder.output_problem[:300], "num_refused": len(refused), "refused": named}


def stamp_of(path: Path) -> list[int]:
    """Return size and time of a file: as long as they stay, so does its content."""
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns]


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
