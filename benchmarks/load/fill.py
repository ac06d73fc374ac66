"""`python -m benchmarks.load.fill PLAN`: the process that fills the stream, as supervisors do.

It makes everything first and says "ready" with the number of entries; at a line on its standard input it begins to
send, and says "done".
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import redis

from benchmarks.load.generate import SEED, Sender, batches, frames, noisy
from trainyard.contract.seals import stream_key

PIPELINE = 16
Entry = dict[Any, Any]


@dataclass(frozen=True)
class Plan:
    """For each sender: ``num_rows`` rows of ``num_series`` series, ``rows_per_frame`` in a frame.

    ``every_s`` is 0 for as fast as the stream takes it; else one frame of each sender in that time, an entry each.
    """

    socket: str
    senders: list[Sender]
    num_series: int
    num_rows: int
    rows_per_frame: int
    every_s: float = 0.0
    is_full: bool = False  # all bits of a double

    @property
    def num_points(self) -> int:
        return len(self.senders) * self.num_rows * self.num_series

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> Plan:
        found: dict[str, Any] = json.loads(path.read_text())
        return cls(**{**found, "senders": [Sender(*sender) for sender in found["senders"]]})


def main(plan: Plan) -> None:
    client = redis.Redis(unix_socket_path=plan.socket)
    ways = [list(entries(plan, sender, number)) for number, sender in enumerate(plan.senders)]
    say(f"ready {sum(map(len, ways))}")
    sys.stdin.readline()
    if plan.every_s:
        trickle(client, ways, plan.every_s)
    else:
        send(client, [entry for turn in zip_longest(*ways) for entry in turn if entry is not None])
    say("done")


def entries(plan: Plan, sender: Sender, number: int) -> Iterator[Entry]:
    points = noisy(plan.num_rows, plan.num_series, seed=SEED + number, is_full=plan.is_full)
    parts = frames(points, plan.rows_per_frame)
    for data in parts if plan.every_s else batches(parts):
        yield sender.entry(data)


def trickle(client: redis.Redis, ways: list[list[Entry]], every_s: float) -> None:
    """One entry of each sender in each period, and the senders spread over it: they know nothing of each other."""
    begun = time.monotonic()
    for turn in range(max(map(len, ways))):
        for place, way in enumerate(ways):
            time.sleep(max(0.0, begun + (turn + place / len(ways)) * every_s - time.monotonic()))
            send(client, way[turn : turn + 1])


def send(client: redis.Redis, found: list[Entry]) -> None:
    for start in range(0, len(found), PIPELINE):
        pipeline = client.pipeline(transaction=False)
        for entry in found[start : start + PIPELINE]:
            pipeline.xadd(stream_key(0), entry)
        pipeline.execute()


def say(word: str) -> None:
    print(word, flush=True)


if __name__ == "__main__":
    main(Plan.read(Path(sys.argv[1])))
