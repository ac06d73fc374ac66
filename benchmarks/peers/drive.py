"""What every peer is put through, the same for all. Standard library only: it runs in the peers' interpreter.

``python -m benchmarks.peers.NAME {cost|ingest|doors} COUNT FOLDER ANSWER`` writes the answer as JSON into that file.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from benchmarks.load.calls import METRICS, costs

NAMES = tuple(METRICS)
SEED = 7
READY_S = 120.0


class Peer(Protocol):
    """A tracker with one run in ``folder``, ready to log. Servers that it needs run already."""

    def log(self, values: dict[str, float], step: int) -> None: ...

    def finish(self) -> None:
        """Return when the tracker says that all is written."""

    def read(self, name: str) -> tuple[int, int] | None:
        """Read one series as the tracker's own page does. Returns the number of points and the last step; None
        where nothing can be read without a server of the maker."""

    def stored_bytes(self) -> int: ...

    def close(self) -> None:
        """End the servers."""


def main(make: Callable[[Path], Peer]) -> None:
    task, count, folder, answer = sys.argv[1:]
    peer = make(Path(folder))
    try:
        found = TASKS[task](peer, int(count))
    finally:
        peer.close()
    Path(answer).write_text(json.dumps(found))


def cost(peer: Peer, count: int) -> dict[str, float]:
    """Microseconds of a log call of 10 metrics."""
    found = costs(count, lambda step: peer.log(METRICS, step))
    peer.finish()
    return dict(found._asdict())


def ingest(peer: Peer, count: int) -> dict[str, float]:
    """Seconds from the first log call until the last step can be read; then one series as for a chart."""
    rows = noisy_rows(count)
    empty_bytes = peer.stored_bytes()
    started = time.perf_counter()
    for step, row in enumerate(rows, 1):
        peer.log(dict(zip(NAMES, row, strict=True)), step)
    peer.finish()
    got = peer.read(NAMES[0])
    while got is not None and got[1] < count:
        time.sleep(0.01)
        got = peer.read(NAMES[0])
    seconds = time.perf_counter() - started
    reads = []
    for _ in range(5 if got is not None else 0):
        began = time.perf_counter()
        peer.read(NAMES[0])
        reads.append(time.perf_counter() - began)
    points = count * len(NAMES)
    found = {"points": points, "seconds": seconds, "bytes_per_point": (peer.stored_bytes() - empty_bytes) / points}
    if got is not None:  # else nothing can be read without a server of the maker
        found |= {"read_s": sorted(reads)[len(reads) // 2], "read_points": got[0]}
    return found


def noisy_rows(count: int) -> list[tuple[float, ...]]:
    """The numbers that all trackers are given: falling curves with noise, each exact in 32 bits."""
    noise = random.Random(SEED)
    width = len(NAMES)
    packed = struct.Struct(f"<{width}f")
    return [
        packed.unpack(packed.pack(*(column + 100 / (step + 100) + noise.gauss(0, 0.02) for column in range(width))))
        for step in range(1, count + 1)
    ]


def doors(peer: Any, count: int) -> dict[str, float]:
    """What the peer itself measures where Trainyard has a door for what it wrote."""
    found: dict[str, float] = peer.doors(count)
    return found


TASKS = {"cost": cost, "ingest": ingest, "doors": doors}


# What peers with a server need.


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def serve(words: list[str], url: str, log: Path, environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a server and return when ``url`` answers. Raises RuntimeError with what it said where it does not."""
    with log.open("wb") as output:
        server = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True
        )
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            fetch(url)
            return server
        except OSError:
            time.sleep(0.1)
    end(server)
    raise RuntimeError(f"{words[0]} did not answer: {log.read_text(errors='replace')[-2000:]}")


def fetch(url: str, document: object = None) -> bytes:
    data = json.dumps(document).encode() if document is not None else None
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"} if data else {})
    with urllib.request.urlopen(request, timeout=30) as answer:
        content: bytes = answer.read()
    return content


def end(server: subprocess.Popen[bytes]) -> None:
    """End a server and what it started: it leads a group of its own."""
    try:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=10)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        server.kill()
        server.wait(timeout=10)


def size_of_sqlite(path: Path) -> int:
    """Bytes of the pages that a SQLite file uses, with its log moved into it."""
    with contextlib.closing(sqlite3.connect(path, timeout=10)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        pages, free, size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
    return int((pages - free) * size)


def size_of(*paths: Path) -> int:
    """Bytes of files, and of all files in folders."""
    files = [file for path in paths for file in ([path] if path.is_file() else path.rglob("*"))]
    return sum(file.stat().st_size for file in files if file.is_file())
