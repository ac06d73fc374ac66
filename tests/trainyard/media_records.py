"""Media that a test logs, as a spool has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trainyard
from runs.ingest.validation.records import incoming
from trainyard.spooling.frames import Frame, decode
from trainyard.spooling.reader import READ_BYTES, SpoolReader
from trainyard.spooling.writer import spool_files


def frames(spool: Path) -> list[Frame]:
    """All frames of the folder's one producer, of any size."""
    found: list[Frame] = []
    for producer, numbers in spool_files(spool).items():
        assert not found, "one process is one producer"
        reader = SpoolReader(spool, producer)
        while read := reader.read(READ_BYTES, numbers):
            found += [decode(frame.raw)[0] for frame in read]
    return found


def media(spool: Path) -> list[dict[str, Any]]:
    """What the spool has of media; and the server takes each of them."""
    found = [frame for frame in frames(spool) if frame.kind == "media"]
    assert [item.problem for item in incoming(b"".join(frame.raw for frame in found))] == [""] * len(found)
    return [frame.payload for frame in found]


def logged(spool: Path, value: Any, **changes: Any) -> dict[str, Any]:
    """Log this one thing and return its record."""
    run = trainyard.init()
    run.log({"it": value}, **{"step": 1, **changes})
    run.finish()
    [payload] = media(spool)
    return payload
