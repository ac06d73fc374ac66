"""`python -m benchmarks.load.fleet PLAN`: nodes as the server sees them, without machines and without trainings.

Each node has the two connections to Valkey that a node worker and a supervisor have, and sends on them what those send
each second (`workers/node/worker.py`, `workers/supervisor/contact.py`): its document, a health sample every other
second, the report of its attempt, and the questions for what is desired. The first node of a run sends a frame with one
point of each of its series. Answers of Valkey are read and counted, and nothing is made of them but of errors.

Says "ready" once all are connected, and takes a line when it is over.
"""

from __future__ import annotations

import asyncio
import json
import os
import struct
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tests.frames import encode as encode_frame
from trainyard import __version__
from trainyard.contract.base import encode
from trainyard.contract.machines import Cpu, Gpu, GpuHealth, Health, HealthSample, Inventory
from trainyard.contract.node_status import ListedAttempt, NodeStatus
from trainyard.contract.reports import AttemptReport, RankReport
from trainyard.contract.seals import (
    EPOCH_KEY,
    down_key,
    frames_scope,
    mac,
    report_key,
    report_scope,
    seal,
    stream_key,
    up_key,
)
from trainyard.contract.statuses import Phase

EVERY_S = 1.0
AT_ONCE, MOST_TRIES, AGAIN_S = 20, 300, 0.1  # of nodes that connect
REPORT_KEPT_S = 3600
GPU_BYTES = 80 * 2**30


@dataclass
class PlannedNode:
    """``first_rank`` and ``num_series``: of its run, whose points its rank 0 sends where there are any."""

    id: str
    name: str
    key: str
    run: str
    attempt: str
    fence: int
    first_rank: int
    num_ranks: int
    num_series: int


class FleetNode:
    def __init__(self, plan: PlannedNode) -> None:
        self.plan, self.step, self.producer = plan, 0, uuid.uuid4().hex
        count = plan.num_ranks
        gpus = [Gpu(index, "NVIDIA H100 80GB HBM3", f"GPU-{uuid.uuid4()}", GPU_BYTES) for index in range(count)]
        self.inventory = Inventory(
            hostname=plan.name, platform="Linux 6.1", python="3.12.1", torch="2.9.0", cpu=Cpu("AMD EPYC", 192, 192),
            memory_bytes=2**40, disk_bytes=2**43, gpus=gpus, driver="570.86", isolation="namespaces", is_warm=True,
            tools=["uv", "podman"],
        )  # fmt: skip
        self.health = Health(12.5, 8.0, 2**40, 2**38, 2**43, 2**42, 1e6, 1e6, [
            GpuHealth(index, 97.0, GPU_BYTES, GPU_BYTES // 2, 61.0, 650.0) for index in range(count)
        ])  # fmt: skip
        began = time.time()
        self.ranks = [
            RankReport(rank=plan.first_rank + index, pid=1000 + index, started_at=began, has_joined=True)
            for index in range(count)
        ]

    def worker_words(self) -> Iterator[tuple[Any, ...]]:
        plan, now = self.plan, time.time()
        key = up_key(plan.id)
        listed = {plan.attempt: ListedAttempt(run=plan.run, fence=plan.fence, phase=Phase.RUNNING)}
        status = NodeStatus(
            at=now, node=plan.id, name=plan.name, version=__version__, address="10.0.0.1", pid=1,
            inventory=self.inventory, health=self.health, attempts=listed,
        )  # fmt: skip
        yield ("SET", key, seal(plan.key, key, status))
        yield ("GET", down_key(plan.id))
        if self.step % 2 == 0:
            data = encode(HealthSample(at=now, **msgspec.structs.asdict(self.health))).encode()
            sealed = mac(plan.key, frames_scope(plan.id, "", 0), data)
            yield ("XLEN", stream_key(0))
            yield ("XADD", stream_key(0), "*", "n", plan.id, "r", "", "a", "", "f", 0, "d", data, "m", sealed)

    def supervisor_words(self) -> Iterator[tuple[Any, ...]]:
        plan, now = self.plan, time.time()
        report = AttemptReport(
            at=now, attempt=plan.attempt, run=plan.run, fence=plan.fence, node=plan.id, phase=Phase.RUNNING,
            address="10.0.0.1", supervisor_pid=2, ranks=self.ranks,
        )  # fmt: skip
        sealed = seal(plan.key, report_scope(plan.id, plan.run, plan.fence), report)
        yield ("SET", report_key(plan.id, plan.attempt), sealed, "EX", REPORT_KEPT_S)
        yield ("GET", down_key(plan.id))
        yield ("GET", EPOCH_KEY)
        if plan.num_series:
            data = b"".join(self.frames(now))
            seal_of_data = mac(plan.key, frames_scope(plan.id, plan.run, plan.fence), data)
            yield ("XLEN", stream_key(0))
            yield ("XADD", stream_key(0), "*", "n", plan.id, "r", plan.run, "a", plan.attempt, "f", plan.fence,
                   "d", data, "m", seal_of_data)  # fmt: skip

    def frames(self, now: float) -> Iterator[bytes]:
        """Yield the points of this second; before the first ones, what a process begins with."""
        sequence = self.step + 1
        if not self.step:
            begin = {"rank": 0, "node": self.plan.id, "pid": 1, "at": now, "role": "rank"}
            yield encode_frame({"p": self.producer, "q": 1, "t": "begin", **begin})
        names = [f"train/metric_{number}" for number in range(self.plan.num_series)]
        values = struct.pack(f"<{len(names)}d", *(1 / (self.step + 1) + number for number in range(len(names))))
        group = [{}, names, struct.pack("<q", self.step), struct.pack("<d", now), values]
        yield encode_frame({"p": self.producer, "q": sequence + 1, "t": "points", "g": [group]})


class Answers(asyncio.Protocol):
    """A connection whose answers are dropped, but for errors, which are told."""

    num_errors = 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if data[:1] == b"-" or b"\r\n-" in data:
            Answers.num_errors += 1
            if Answers.num_errors <= 3:
                at = max(0, data.find(b"\r\n-"))
                print(f"Valkey refused: {data[at : at + 200]!r}", file=sys.stderr)

    def send(self, words: Iterator[tuple[Any, ...]]) -> None:
        self.transport.write(b"".join(command(one) for one in words))


def command(words: tuple[Any, ...]) -> bytes:
    """Return the words in Valkey's protocol (RESP 2)."""
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


async def connected(socket: str, few: asyncio.Semaphore) -> tuple[Answers, Answers]:
    """Return the connections of a worker and of its supervisor."""
    loop, found = asyncio.get_running_loop(), list[Answers]()
    async with few:
        for _ in range(MOST_TRIES):
            try:
                found.append((await loop.create_unix_connection(Answers, socket))[1])
            except BlockingIOError:  # a socket of the file system does not wait where its backlog is full
                await asyncio.sleep(AGAIN_S)
            if len(found) == 2:
                return found[0], found[1]
    raise TimeoutError(f"Valkey took no connection in {MOST_TRIES * AGAIN_S:.0f} s")


async def live(node: FleetNode, worker: Answers, supervisor: Answers, first_s: float, over: asyncio.Event) -> None:
    """Be the node, from ``first_s`` into the second on."""
    loop = asyncio.get_running_loop()
    due = loop.time() + first_s
    while not over.is_set():
        await asyncio.sleep(max(0.0, due - loop.time()))
        worker.send(node.worker_words())
        supervisor.send(node.supervisor_words())
        node.step += 1
        due = max(due + EVERY_S, loop.time())  # one that is late does not hurry


async def main(path: Path) -> None:
    plan = json.loads(path.read_text())
    nodes = [FleetNode(PlannedNode(**one)) for one in plan["nodes"]]
    over, few = asyncio.Event(), asyncio.Semaphore(AT_ONCE)
    pairs = await asyncio.gather(*(connected(plan["socket"], few) for _ in nodes))
    tasks = [
        asyncio.create_task(live(node, *pair, number / len(nodes), over))
        for number, (node, pair) in enumerate(zip(nodes, pairs, strict=True))
    ]
    print("ready", flush=True)
    began = time.monotonic()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    over.set()
    sent = sum(node.step for node in nodes) / len(nodes) / (time.monotonic() - began)
    print(f"done {sent:.3f} {Answers.num_errors}", flush=True)
    del tasks
    os._exit(0)


if __name__ == "__main__":
    import uvloop

    uvloop.run(main(Path(sys.argv[1])))
