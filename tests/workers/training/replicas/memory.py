"""Trainings that keep states in the memory folders of their nodes: each rank is a node of its own."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import torch

from tests.workers.training.checkpoints.yard import RUN, Yard
from tests.workers.training.ranks import Point, notes, tiny_spec, train, train_on
from trainyard.contract.base import encode
from trainyard.spec import RecipeSpec
from workers.replicas.folders import PLAN, MemoryFolder, PeerNode, ReplicaPlan, RunMemory
from workers.replicas.receiving import KnownAttempt, Receiver
from workers.training import loop
from workers.training.checkpoints.store import Mark, find
from workers.training.group import RankPlace

ROOT, LIMIT, NODES = "MEMORY_OF_TEST", "LIMIT_OF_TEST", "NODES_OF_TEST"
ABOVE, UNTIL, FULL_SPOOL, DIES = "ABOVE_OF_TEST", "UNTIL_OF_TEST", "FULL_SPOOL_OF_TEST", "DIES_OF_TEST"
PORTS, KEY = "PORTS_OF_TEST", "5c" * 32
LARGE = 1 << 30
NOBODY = (-1, -1)


def begin(spec: RecipeSpec, place: RankPlace, recorder: Any) -> None:
    """In a rank: train as one that is told of its node's memory."""
    node = os.environ[NODES].split(",")[place.rank]
    above, until = os.environ[ABOVE], os.environ[UNTIL]
    ports = json.loads(os.environ[PORTS])
    others = [one for one in dict.fromkeys(os.environ[NODES].split(",")) if one != node and one in ports]
    behind = [one for one in others if one > node] or others
    plan = ReplicaPlan(
        node=node,
        folder=str(Path(os.environ[ROOT]) / node / RUN),
        limit_bytes=int(os.environ[LIMIT]),
        restore_above=int(above) if above else None,
        restore_until_step=int(until) if until else None,
        attempt=RUN,
        key=KEY,
        peer=PeerNode(behind[0], "127.0.0.1", ports[behind[0]]) if behind else None,
    )
    os.environ[PLAN] = encode(plan)
    if os.environ[FULL_SPOOL] == str(place.rank):
        recorder.flush = lambda: False
    if dies := os.environ[DIES]:
        draw_and_die(recorder, place.rank, *map(int, dies.split(":")))
    train(spec, place, recorder)


def draw_and_die(recorder: Any, rank: int, dying: int, step: int) -> None:
    """Have each rank draw a number in each step, and the rank ``dying`` be killed where it begins that step."""
    take = loop.take_step

    def take_or_die(training: Any, number: int) -> Any:
        recorder.log({"drawn": torch.rand(()).item() + rank}, step=number)
        if (rank, number) == (dying, step):
            os.kill(os.getpid(), signal.SIGKILL)
        return take(training, number)

    loop.take_step = take_or_die


class MemoryYard(Yard):
    """One run whose ranks are on ``nodes``, by rank; what lies on the disk is offered only where a test says so."""

    def __init__(self, folder: Path, *nodes: str) -> None:
        super().__init__(folder / "checkpoints")
        self.root, self.nodes, self.limit_bytes = folder / "memory", nodes, LARGE
        self.above: int | None = 0
        self.until: int | None = None
        self.full_spool: int | None = None  # the rank whose spool takes nothing
        self.dies: tuple[int, int] | None = None  # a rank, and the step in which it is killed; all draw random numbers
        self.receivers: dict[str, Receiver] = {}

    def connect(self) -> None:
        """Let each node receive parts of the others."""
        for node in dict.fromkeys(self.nodes):
            (self.root / node).mkdir(parents=True, exist_ok=True)
            folder = MemoryFolder(self.root / node, self.limit_bytes)
            self.receivers[node] = Receiver(folder, "127.0.0.1", lambda attempt: KnownAttempt(RUN, self.fence, KEY))
            self.receivers[node].start()

    def close(self) -> None:
        for receiver in self.receivers.values():
            receiver.close()

    def go(self, *, restore: list[dict[str, Any]] | None = None, **changes: Any) -> list[list[Point]]:
        self.fence += 1
        world = len(self.nodes)
        return train_on(
            world,
            tiny_spec(world=world, schedule="constant", **changes),
            begin=begin,
            dying=() if self.dies in (None, NOBODY) else self.dies[:1],
            TRAINYARD_RUN=self.run,
            TRAINYARD_FENCE=str(self.fence),
            TRAINYARD_CHECKPOINTS=str(self.folder),
            TRAINYARD_RESTORE=json.dumps(restore or []),
            **{ROOT: str(self.root), LIMIT: str(self.limit_bytes), NODES: ",".join(self.nodes)},
            **{PORTS: json.dumps({node: one.port for node, one in self.receivers.items()})},
            **{ABOVE: "" if self.above is None else str(self.above)},
            **{UNTIL: "" if self.until is None else str(self.until), FULL_SPOOL: str(self.full_spool)},
            **{DIES: "" if self.dies is None else f"{self.dies[0]}:{self.dies[1]}"},
        )

    def memory(self, node: str) -> RunMemory:
        return RunMemory(self.root / node / RUN)

    def states(self, node: str) -> list[Mark]:
        """Return the states of which a rank of the node took a part."""
        return find(self.memory(node).own)


def told(points: list[Point]) -> list[tuple[str, int | None, str]]:
    """Return what was reported of checkpoints and of states in memory, as (state, step, whose memory)."""
    return [(note["state"], note.get("step"), note.get("memory", "")) for note in notes(points)]
