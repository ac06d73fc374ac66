"""Parts of a state on their way between nodes when a training goes on: over the ranks' own connections."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist

from workers.replicas.folders import MemoryFolder, NoRoom, RunMemory
from workers.replicas.plan import ReplicaPlan
from workers.training.checkpoints.manifest import Manifest, StoredFile
from workers.training.checkpoints.store import Mark

CHUNK_BYTES = 8 << 20  # that a rank holds of what it sends or receives


class Move(NamedTuple):
    """A part goes from one rank to another."""

    name: str
    source: int
    to: int


def carry_out(
    moves: list[Move], plan: ReplicaPlan, mark: Mark, manifest: Manifest, rank: int, device: torch.device
) -> str:
    """Send and receive what concerns this rank; return why a part could not be received, empty where all were."""
    memory, problem = RunMemory(Path(plan.folder)), ""
    for move in moves:
        stored = manifest.files[move.name]
        if rank == move.source:
            path = next(folder / move.name for folder in memory.places(mark.name) if (folder / move.name).is_file())
            _send(path, stored.bytes, move.to, device)
        elif rank == move.to:
            problem = _receive(memory, plan, mark, move, stored, device) or problem
    return problem


def _send(path: Path, num_bytes: int, to: int, device: torch.device) -> None:
    with path.open("rb", buffering=0) as file:
        left = num_bytes
        while left:
            data = bytearray(file.read(min(left, CHUNK_BYTES)))
            data += bytes(min(left, CHUNK_BYTES) - len(data))  # it has shrunk meanwhile: its digest shows that
            dist.send(torch.frombuffer(data, dtype=torch.uint8).to(device), dst=to)
            left -= len(data)


def _receive(
    memory: RunMemory, plan: ReplicaPlan, mark: Mark, move: Move, stored: StoredFile, device: torch.device
) -> str:
    """Whatever goes wrong here, all that was sent is received: the sender waits for that."""
    folder, problem = memory.own / mark.name, ""
    digest, left = hashlib.sha256(), stored.bytes
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        MemoryFolder(memory.path, plan.limit_bytes).refuse_beyond_limit(stored.bytes)
        file = (folder / f".{move.name}").open("wb", buffering=0)
    except (OSError, NoRoom) as error:
        file, problem = None, str(error)
    while left:
        chunk = torch.empty(min(left, CHUNK_BYTES), dtype=torch.uint8, device=device)
        dist.recv(chunk, src=move.source)
        data = chunk.cpu().numpy().data
        digest.update(data)
        left -= len(data)
        if file is not None and not problem:
            try:
                if file.write(data) != len(data):
                    problem = "the memory folder is full"
            except OSError as error:
                problem = str(error)
    if file is not None:
        file.close()
        if not problem and digest.hexdigest() != stored.sha256:
            problem = f"{move.name} did not arrive as it was taken: its SHA-256 differs"
        if problem:
            (folder / f".{move.name}").unlink(missing_ok=True)
        else:
            (folder / f".{move.name}").rename(folder / move.name)
    return f"{move.name}: {problem}" if problem else ""
