"""What lies in the stream, and what a server would say of it, for tests of the shipping."""

from __future__ import annotations

import time
from pathlib import Path

import redis

from tests.frames import frames
from trainyard.contract.orders import Order
from trainyard.contract.records import Begin, Logs
from trainyard.contract.seals import EPOCH_KEY, check_mac, down_key, frames_scope, new_key, seal, stream_key
from trainyard.spooling.frames import Frame
from trainyard.spooling.writer import SpoolWriter
from workers.supervisor.records.shipper import Shipper

KEY = new_key()
ORDER = Order(attempt="a", run="r", fence=3, node="n", shard=0, lease_s=600.0)


def log_line(text: str, offset: int = 0) -> Logs:
    return Logs(0, "stdout", [(0.0, text)], offset)


def fill(folder: Path, num_lines: int, *, producer: str = "p" * 32) -> SpoolWriter:
    writer = SpoolWriter(folder, producer=producer, begin=Begin(rank=0))
    for number in range(num_lines):
        writer.append(log_line(f"line {number}"))
    return writer


def ship_all(shipper: Shipper) -> None:
    while shipper.step():
        pass


def arrived(client: redis.Redis) -> list[Frame]:
    found: list[Frame] = []
    for _, entry in client.xrange(stream_key(0)):  # type: ignore[union-attr]
        check_mac(KEY, frames_scope("n", "r", 3), entry[b"d"], entry[b"m"].decode())
        found += frames(entry[b"d"])
    return found


def say(client: redis.Redis, epoch: str = "1", **entry: object) -> None:
    own = {"run": "r", "fence": 3, "wanted": "run", "order": None, "go": None, "watermarks": {}, "resend": [], **entry}
    document = {"at": time.time(), "node": "n", "epoch": epoch, "attempts": {"a": own}}
    client.set(down_key("n"), seal(KEY, down_key("n"), document))
    client.set(EPOCH_KEY, epoch)
