"""What lies in a spool folder, for tests of the SDK."""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from trainyard.spooling.frames import Frame, decode
from trainyard.spooling.reader import READ_BYTES, SpoolReader
from trainyard.spooling.writer import spool_files

Points = dict[tuple[str, tuple[tuple[str, str], ...]], list[tuple[int, float]]]


def producers(folder: Path) -> list[list[Frame]]:
    """Return the frames of each spool, and check what holds for every spool."""
    found = []
    for producer, numbers in sorted(spool_files(folder).items()):
        reader = SpoolReader(folder, producer)
        frames: list[Frame] = []
        while read := reader.read(READ_BYTES, numbers):
            frames += [decode(frame.raw)[0] for frame in read]
        if not frames:  # just made
            continue
        assert [frame.sequence for frame in frames] == list(range(1, len(frames) + 1))
        assert {frame.producer for frame in frames} == {producer}
        assert not any(frame.kind == "damaged" for frame in frames)
        assert frames[0].kind == "begin"
        assert all(len(frame.raw) <= 256 * 1024 for frame in frames)
        found.append(frames)
    return found


def points(frames: list[Frame]) -> Points:
    found: Points = {}
    for frame in frames:
        for labels, names, *packed in frame.payload.get("g", []):
            steps, times, values = (array(kind, column) for kind, column in zip("qdd", packed, strict=True))
            assert len(steps) == len(times) and len(values) == len(steps) * len(names)
            for index, name in enumerate(names):
                key = (name, tuple(sorted(labels.items())))
                found.setdefault(key, []).extend(zip(steps, values[index :: len(names)], strict=True))
    return found


def eventually(holds: Callable[[], bool]) -> None:
    for _ in range(1000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come true")


def told(frames: list[Frame]) -> dict[str, int]:
    """Return what the producer says it lost."""
    counts: Counter[str] = Counter()
    for frame in frames:
        counts.update(frame.payload.get("counts", {}))
    return dict(counts)
