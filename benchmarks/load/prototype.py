"""`python -m benchmarks.load.prototype {read|store} SOCKET FILE NUM_ENTRIES`: the limits of ingest.

As little as can be done. ``read``: entries of the stream are read and acknowledged. ``store``: their frames are
decoded too, each series of each frame is compressed as it came and inserted into SQLite, synced as ours is. No seals,
no checksums, no sequences, no summaries, no merging, nobody told: it shows what the libraries and the disk allow. It
says "ready", then "done" when all is in.
"""

from __future__ import annotations

import sqlite3
import sys
from typing import Any

import msgpack
import numpy as np
import redis
from pcodec import ChunkConfig, standalone

from trainyard.contract.seals import stream_key
from trainyard.spooling.frames import HEADER

GROUP = "prototype"
READ_ENTRIES = 64
CONFIG = ChunkConfig(compression_level=4)


def main(task: str, socket: str, path: str, num_entries: int) -> None:
    client = redis.Redis(unix_socket_path=socket)
    stream = stream_key(0)
    client.delete(stream)
    client.xgroup_create(stream, GROUP, id="0", mkstream=True)
    database = sqlite3.connect(path, isolation_level=None)
    for statement in ("journal_mode=WAL", "synchronous=FULL"):
        database.execute(f"PRAGMA {statement}")
    database.execute("CREATE TABLE segment (id INTEGER PRIMARY KEY, name, count, first, last, axis, data)")
    database.execute("CREATE INDEX by_name ON segment (name, first)")
    print("ready", flush=True)
    num_seen = 0
    while num_seen < num_entries:
        answer: Any = client.xreadgroup(GROUP, "one", {stream: ">"}, READ_ENTRIES, block=1000)
        entries = answer[0][1] if answer else []
        if not entries:
            continue
        if task == "store":
            store(database, [fields[b"d"] for _, fields in entries])
        ids = [entry_id for entry_id, _ in entries]
        pipeline = client.pipeline(transaction=False)
        pipeline.xack(stream, GROUP, *ids)
        pipeline.xdel(stream, *ids)
        pipeline.execute()
        num_seen += len(ids)
    print("done", flush=True)
    client.xgroup_destroy(stream, GROUP)


def store(database: sqlite3.Connection, datas: list[bytes]) -> None:
    database.execute("BEGIN IMMEDIATE")
    for data in datas:
        database.executemany(
            "INSERT INTO segment (name, count, first, last, axis, data) VALUES (?, ?, ?, ?, ?, ?)", rows_of(data)
        )
    database.execute("COMMIT")


def rows_of(data: bytes) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    offset = 0
    while offset < len(data):
        length, _ = HEADER.unpack_from(data, offset)
        offset += HEADER.size
        payload = msgpack.unpackb(data[offset : offset + length])
        offset += length
        for _, names, packed_steps, packed_times, packed_values in payload.get("g", []):
            steps = np.frombuffer(packed_steps, "<i8")
            axis = compressed(steps) + compressed(np.frombuffer(packed_times, "<f8"))
            values = np.frombuffer(packed_values, "<f8").reshape(steps.size, len(names)).astype(np.float32).T.copy()
            first, last = int(steps[0]), int(steps[-1])
            rows += [
                (name, steps.size, first, last, axis if place == 0 else b"", compressed(values[place]))
                for place, name in enumerate(names)
            ]
    return rows


def compressed(column: Any) -> bytes:
    return bytes(standalone.simple_compress(column, CONFIG))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
