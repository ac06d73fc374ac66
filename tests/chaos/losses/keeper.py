"""Keeps what the ranks were promised: every spool file, by a hard link of the test's own, whoever deletes the file."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.points import Points, Row, SeriesKey, gathered, key_of, rows
from trainyard.spooling.frames import BadFrame, TornFrame, decode

LOOK_EVERY_S = 0.02
Payload = dict[str, Any]  # of a frame, as it is in the file


class Keeper(threading.Thread):
    """Links the spool files of all attempts under ``home`` into ``folder`` as they appear.

    A frame was acknowledged when it is whole in its file. Call ``stop`` before reading. Attempts that are older than
    this are left out.
    """

    def __init__(self, home: Path, folder: Path) -> None:
        super().__init__(name="keeper", daemon=True)
        self._home = home
        self._folder = folder
        self._over = threading.Event()
        self._known: set[tuple[str, int]] = set()
        self._foreign = {path.name for path in home.glob("nodes/*/attempts/*")}

    def run(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            self._look()

    def stop(self) -> None:
        self._over.set()
        self.join()
        self._look()

    def producers(self) -> dict[str, dict[str, int]]:
        """Return the last whole frame's sequence of every producer, by run."""
        found: dict[str, dict[str, int]] = {}
        for run, _, frames in self._attempts():
            for producer, sequence in frames:
                known = found.setdefault(run, {})
                known[producer] = max(sequence, known.get(producer, 0))
        return found

    def points(self) -> Points:
        return gathered(
            part
            for run, fence, frames in self._attempts()
            for payload in frames.values()
            for part in points_of(run, fence, payload)
        )

    def num_attempts(self, run: str) -> int:
        return sum(one == run for one, *_ in self._attempts())

    def _look(self) -> None:
        for path in self._home.glob("nodes/*/attempts/*/spool/*.spool"):
            with contextlib.suppress(FileNotFoundError):  # it went between two lines; an earlier look has it
                attempt = path.relative_to(self._home / "nodes").parts[2]
                inode = path.stat().st_ino
                if attempt in self._foreign or (attempt, inode) in self._known:
                    continue
                folder = self._folder / attempt
                folder.mkdir(parents=True, exist_ok=True)
                order = next(self._home.glob(f"nodes/*/attempts/{attempt}/order.json"))
                (folder / "order.json").write_text(order.read_text())
                with contextlib.suppress(FileExistsError):
                    os.link(path, folder / f"{inode}.spool")
                self._known.add((attempt, inode))

    def _attempts(self) -> Iterator[tuple[str, int, dict[tuple[str, int], Payload]]]:
        """Yield run, fence and the frames by producer and sequence, of which a rewritten file may hold some again.

        An attempt of two nodes is one folder here: each node's file has a name of its own.
        """
        for folder in sorted(self._folder.iterdir()):
            order = json.loads((folder / "order.json").read_text())
            frames = {(frame["p"], frame["q"]): frame for path in folder.glob("*.spool") for frame in whole(path)}
            counts = Counter(producer for producer, _ in frames)
            missed = {producer for producer, last in frames if last > counts[producer]}
            assert not missed, "a spool file came and went between two looks: the test is too slow, not the product"
            yield order["run"], order["fence"], frames


def whole(path: Path) -> Iterator[Payload]:
    """Yield the frames up to a torn end."""
    data, offset = path.read_bytes(), 0
    while offset < len(data):
        try:
            frame, offset = decode(data, offset)
        except (TornFrame, BadFrame):
            return
        yield frame.payload


def points_of(run: str, fence: int, payload: Payload) -> Iterator[tuple[SeriesKey, Counter[Row]]]:
    for labels, names, steps, times, values in payload.get("g", ()):
        table = np.frombuffer(values, "<f8").reshape(-1, len(names))
        for column, name in enumerate(names):
            found = rows(np.frombuffer(steps, "<i8"), np.frombuffer(times, "<f8"), table[:, column])
            yield key_of(run, fence, name, labels), found
