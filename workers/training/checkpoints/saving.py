"""Keeping checkpoints: a copy in memory while training waits, all the rest in a thread beside it."""

import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from trainyard.at_rest.keyring import NO_KEYS, Keyring
from trainyard.contract.records import Checkpoint, CheckpointState
from trainyard.spooling.plain_files import sync
from workers.training.checkpoints import manifest as manifests
from workers.training.checkpoints import parts, store
from workers.training.checkpoints.manifest import Manifest, TrainingState
from workers.training.checkpoints.parts import PartEncryption, PartNote, write_part
from workers.training.checkpoints.pieces import TensorPiece
from workers.training.checkpoints.random_state import RandomState, random_state
from workers.training.checkpoints.snapshot import Snapshot
from workers.training.checkpoints.store import Mark
from workers.training.metrics import Metrics
from workers.training.recipes import ModelDocument

# Limit of rank 0's wait for the others' parts, and of training's for a disk that still writes the checkpoint before.
PARTS_TIMEOUT_S = 600.0
MAX_WHY = 500  # characters of a reason in a record; the log has all


class Background:
    """One piece of work at a time, in a thread beside training."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None

    def start(self, work: Callable[..., None], *arguments: Any) -> None:
        # A daemon: a training that fails must not wait for its disk.
        self._thread = threading.Thread(target=work, args=arguments, name=self._name, daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Return whether nothing is being done any more."""
        if self._thread is not None:
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                return False
            self._thread = None
        return True


@dataclass(frozen=True, slots=True)
class AttemptFacts:
    """Facts that are the same in all checkpoints of an attempt. The parts of ``writers`` make a whole one."""

    run: str
    fence: int
    folder: Path
    keep: int
    rank: int
    writers: tuple[int, ...]
    model: ModelDocument
    world_size: int
    degrees: dict[str, int]
    device: torch.device
    keyring: Keyring = NO_KEYS

    def encryption_of(self, mark: Mark) -> PartEncryption:
        return PartEncryption(self.keyring, partial(manifests.file_context, self.run, mark.fence, mark.step))


def manifest_of(facts: AttemptFacts, mark: Mark, state: TrainingState, notes: Mapping[int, PartNote]) -> Manifest:
    """Return what describes the checkpoint of these parts, by the rank that has written each."""
    tensors, files = parts.join_notes(notes)
    return Manifest(
        run=facts.run,
        step=mark.step,
        fence=mark.fence,
        at=time.time(),
        model=facts.model,
        parameters=manifests.parameters_digest(tensors),
        world_size=facts.world_size,
        degrees=facts.degrees,
        state={**state, "random": {str(rank): note.random for rank, note in notes.items()}},
        tensors=tensors,
        files=files,
    )


@dataclass(slots=True)
class Saver:
    """Saves one checkpoint at a time. One that is due while the last is still being written waits for it.

    Ranks that skipped instead would each skip by their own disk, and might never have a whole one between them.
    """

    facts: AttemptFacts
    metrics: Metrics
    damaged: set[Mark] = field(default_factory=set)  # of this run: the first to go
    _snapshot: Snapshot = field(init=False)
    _background: Background = field(default_factory=partial(Background, "checkpoint"))

    def __post_init__(self) -> None:
        self._snapshot = Snapshot(self.facts.device)

    def save(self, step: int, pieces: Callable[[], Sequence[TensorPiece]], state: TrainingState) -> None:
        """Keep the pieces and ``state`` as the checkpoint behind ``step``. Returns when they may change."""
        started = time.perf_counter()
        if not self.wait(PARTS_TIMEOUT_S):
            print(f"checkpoint at step {step}: left out, the one before is still being written", flush=True)
            return
        self._snapshot.take(pieces())
        random, stall_s = random_state(self.facts.device), time.perf_counter() - started
        self._background.start(self._write, step, state, random, stall_s, started)

    def wait(self, timeout_s: float) -> bool:
        """Return whether nothing is being written any more."""
        return self._background.wait(timeout_s)

    # In the thread.

    def _write(self, step: int, state: TrainingState, random: RandomState, stall_s: float, started: float) -> None:
        facts, mark = self.facts, Mark(self.facts.fence, step)
        folder = facts.folder / mark.temporary_name
        try:
            if facts.rank == 0:
                store.sweep(facts.folder, mark)
            folder.mkdir(exist_ok=True)
            self.metrics.flush()  # first: behind a checkpoint that counts nobody logs its steps again
            write_part(folder, facts.rank, self._snapshot, random, stall_s, facts.encryption_of(mark))
            if facts.rank == 0:
                self._complete(folder, mark, state, started)
        # Whatever it is: a checkpoint that cannot be kept is no reason to end a training.
        except Exception as error:
            self._give_up(folder, mark, f"{type(error).__name__}: {error}")

    def _complete(self, folder: Path, mark: Mark, state: TrainingState, started: float) -> None:
        facts = self.facts
        notes = parts.wait_for_parts(folder, facts.writers, PARTS_TIMEOUT_S, facts.encryption_of(mark))
        manifest = manifest_of(facts, mark, state, notes)
        parts.remove_notes(folder, notes)
        num_bytes = manifest.num_bytes + manifests.write_manifest(folder, manifest, facts.keyring)
        # Whole now, and on the disk: the rename is what makes it one. Its own fsync keeps it through a power cut.
        folder.rename(facts.folder / mark.name)
        sync(facts.folder)
        saved = record_of("saved", facts.run, mark, manifest)
        saved.key_version = facts.keyring.newest
        saved.bytes, saved.num_files = num_bytes, len(manifest.files) + 1
        saved.took_s = time.perf_counter() - started
        saved.stall_s = max(note.stall_s for note in notes.values())
        self.metrics.report(saved)
        for old in store.retire(facts.folder, facts.keep, self.damaged):
            self.metrics.report(record_of("deleted", facts.run, old))
            shutil.rmtree(facts.folder / old.deleted_name, ignore_errors=True)

    def _give_up(self, folder: Path, mark: Mark, why: str) -> None:
        print(f"checkpoint at step {mark.step} could not be kept, training goes on: {why}", flush=True)
        if self.facts.rank == 0:
            shutil.rmtree(folder, ignore_errors=True)
            self.metrics.report(record_of("off", self.facts.run, mark, why=why))
        else:
            parts.refuse_part(folder, self.facts.rank, why, PARTS_TIMEOUT_S)


def record_of(
    state: CheckpointState, run: str, mark: Mark, manifest: Manifest | None = None, *, why: str = "", memory: str = ""
) -> Checkpoint:
    """Return the record of what became of a checkpoint; ``memory`` names nodes, where it is a state in their memory."""
    at = time.time()
    record = Checkpoint(state=state, run=run, step=mark.step, fence=mark.fence, at=at, why=why[:MAX_WHY], memory=memory)
    if manifest is not None:
        record.world_size, record.degrees = manifest.world_size, dict(manifest.degrees)
    return record


def off_record(run: str, fence: int, why: str, *, memory: str = "") -> Checkpoint:
    """Return the record that none are kept in this attempt."""
    return Checkpoint(state="off", run=run, fence=fence, at=time.time(), why=why[:MAX_WHY], memory=memory)
