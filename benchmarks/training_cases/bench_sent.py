"""Bytes that a rank sends in a step for each way to let gradients or weights travel, as the kernel counts them,
against DDP in the same run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks import goals
from benchmarks.ranks import gpt_spec, on_ranks
from benchmarks.table import Goal, Row
from benchmarks.training import prepared
from trainyard.contract.base import JsonObject
from workers.training import group as process_group
from workers.training.group import RankPlace
from workers.training.loop import settle, take_step

WORLD = 2
EVERY_STEPS = 10  # of the kinds that agree every so many; as many steps are counted
BATCH_SIZE = 2  # of which nothing here depends
IO = Path("/proc/self/io")
LOCAL = {"every_steps": EVERY_STEPS}
OTHERS: dict[str, dict[str, Any]] = {  # which are compared with the kernel's count alone
    "DDP": {},
    "shard, weights dropped": {"data": 1, "shard": WORLD},
    "shard, weights kept": {"data": 1, "shard": WORLD, "reshard_after_forward": False},
    "tensor": {"data": 1, "tensor": WORLD},
    "pipeline": {"data": 1, "pipeline": {"stages": WORLD}},
    "parameter-server": {"synchronization": {"kind": "parameter-server"}},
}
WAYS: dict[str, tuple[dict[str, Any], Goal | None]] = {
    "fp16": ({"compression": "fp16"}, goals.SENT_HALF),
    "bf16": ({"compression": "bf16"}, goals.SENT_HALF),
    "powersgd": ({"compression": "powersgd"}, goals.SENT_POWERSGD),
    f"local-sgd every {EVERY_STEPS} steps": ({"synchronization": {"kind": "local-sgd", **LOCAL}}, goals.SENT_LOCAL),
    f"diloco every {EVERY_STEPS} steps": ({"synchronization": {"kind": "diloco", **LOCAL}}, goals.SENT_LOCAL),
}


class Sent(NamedTuple):
    """Bytes of one rank in a step: ``written`` by the process, as the kernel says, and ``counted`` by itself."""

    written: float
    counted: float


def written_bytes() -> int:
    """What this process has handed to the kernel in write calls, on sockets too; nothing here writes files."""
    return int(dict(line.split(": ") for line in IO.read_text().splitlines())["wchar"])


def sent_of_rank(place: RankPlace, ways: list[JsonObject]) -> list[Sent]:
    """In a rank: train in each way for a round and count, from behind the throwaway passes on."""
    process_group.join(place, torch.device("cpu"))
    return [sent_by(place, parallel) for parallel in ways]


def sent_by(place: RankPlace, parallel: JsonObject) -> Sent:
    spec = gpt_spec(WORLD, parallel=parallel, steps=EVERY_STEPS, warmup_steps=1, batch_size=BATCH_SIZE)
    training = prepared(spec, place)
    settle(training)
    training.synchronization.begin(1)
    training.synchronization.measured()  # what came before is not counted
    before, seen = written_bytes(), 0.0
    for step in range(1, EVERY_STEPS + 1):
        seen += take_step(training, step).measured.sent_bytes
    training.synchronization.finish()
    written = written_bytes() - before
    counted = training.synchronization.measured().get("rank/sent_bytes", seen)
    return Sent(written / EVERY_STEPS, counted / EVERY_STEPS)


def rows() -> list[Row]:
    ways = [*OTHERS.values(), *(parallel for parallel, _ in WAYS.values())]
    ranks = on_ranks(WORLD, sent_of_rank, ways)
    sent_by_way = dict(zip((*OTHERS, *WAYS), (mean(one) for one in zip(*ranks, strict=True)), strict=True))
    ddp = sent_by_way["DDP"]
    found = [count_row(sent_by_way)]
    for name, (_, goal) in WAYS.items():
        sent = sent_by_way[name]
        found.append(
            Row(f"sent by a rank in a step of hello-gpt, {WORLD} ranks: {name}", sent.written / 1000, "kB",
                ddp.written / 1000, "DDP", goal=goal, others={"its own count": sent.counted / 1000})
        )  # fmt: skip
    return found


def count_row(sent_by_way: dict[str, Sent]) -> Row:
    """How near a rank's own count is to the kernel's, at worst."""
    off = {name: 100 * abs(sent.counted / sent.written - 1) for name, sent in sent_by_way.items()}
    return Row(f"sent by a rank in a step, {WORLD} ranks: its own count, at worst", max(off.values()), "% off", None,
               "the kernel's count", goal=goals.SENT_COUNT, others=dict(off))  # fmt: skip


def mean(ranks: tuple[Sent, ...]) -> Sent:
    return Sent(*(sum(numbers) / len(ranks) for numbers in zip(*ranks, strict=True)))
