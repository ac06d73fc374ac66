"""The state behind the last step. Where ranks hold copies of one model and one of them dies, the others have the newest
state, and can take no further step. Each node keeps it before its ranks end, and a restart trains no step again.

The random state of a dead rank is the only thing that nobody else has. So every rank leaves its own in its node's
memory behind each step, once the points of that step are in its spool: the next attempt does not log them again. Where
this costs more than a hundredth of a step it is left out, and a restart takes an older state.
"""

import json
import os
import statistics
import struct
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from trainyard.spec.sections.parallel import Parallel
from workers.replicas.folders import ReplicaPlan, RunMemory
from workers.training.build import Training
from workers.training.checkpoints.manifest import Manifest, TrainingState, manifest_text
from workers.training.checkpoints.parts import PartNote
from workers.training.checkpoints.pieces import TensorPiece
from workers.training.checkpoints.random_state import RandomState, random_state
from workers.training.checkpoints.saving import AttemptFacts, manifest_of
from workers.training.checkpoints.store import Mark
from workers.training.group import gather_all
from workers.training.metrics import Metrics
from workers.training.replicas.interval import SHARE
from workers.training.replicas.snapshots import MemorySnapshot, lay_down, map_new_file
from workers.training.replicas.taking import refusing

PROBES = 20  # steps that show whether a note is cheap enough, again and again: a disk may become slow
WHOLE = "rank-0.safetensors"  # the same on every node: its ranks hold copies
SLOT_BYTES = 32 << 10
HEADER = struct.Struct("<qII")  # step, bytes, CRC-32


def are_copies(training: Training, parallel: Parallel) -> bool:
    """Return whether each rank holds all that another does, but for its random state. On GPUs a rank waits for a dead
    one inside a kernel: it cannot keep what it has."""
    return (
        set(training.mesh.used) <= {"data"}
        and training.device.type == "cpu"
        and training.balance is None
        and parallel.synchronization.kind == "every-step"
        and parallel.compression in ("none", "fp16", "bf16")  # the others keep what they did not send
    )


class RandomNotes:
    """A rank's random states behind its last two steps, in a file that outlives it. Raises OSError when it is made."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._slots = map_new_file(path, 2 * SLOT_BYTES)

    def write(self, step: int, state: RandomState) -> None:
        text = json.dumps(state).encode()
        start = step % 2 * SLOT_BYTES
        self._slots[start : start + HEADER.size] = bytes(HEADER.size)  # until all of it is there
        self._slots[start + HEADER.size : start + HEADER.size + len(text)] = text
        self._slots[start : start + HEADER.size] = HEADER.pack(step, len(text), zlib.crc32(text))

    @staticmethod
    def read(path: Path, step: int) -> RandomState | None:
        """Return the state behind that step, None where there is none that is whole."""
        with suppress(OSError):
            data = path.read_bytes()
            start = step % 2 * SLOT_BYTES
            if len(data) == 2 * SLOT_BYTES:
                found, num_bytes, crc = HEADER.unpack_from(data, start)
                text = data[start + HEADER.size : start + HEADER.size + num_bytes]
                if found == step and zlib.crc32(text) == crc:
                    state: RandomState = json.loads(text)
                    return state
        return None


@dataclass(slots=True)
class LastState:
    """Call ``stepped`` behind each step with all its points, and ``keep`` when no other step can be taken."""

    plan: ReplicaPlan
    facts: AttemptFacts
    metrics: Metrics
    _notes: RandomNotes | None = None
    _step: int | None = None  # behind which the note is
    _costs_s: list[float] = field(default_factory=list)
    _ended_at: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        with suppress(OSError):
            self._notes = RandomNotes(note_path(self.plan.memory, self.facts.fence, self.facts.rank))

    def stepped(self, step: int) -> None:
        """Leave this rank's random state, once the points of the step are kept."""
        if self._notes is None:
            return
        started = time.perf_counter()
        if self.metrics.flush():
            self._notes.write(step, random_state(self.facts.device))
            self._step = step
        self._decide(started)

    def _decide(self, started: float) -> None:
        ended = time.perf_counter()
        self._costs_s.append(ended - started)
        self._ended_at.append(ended)
        if len(self._costs_s) == PROBES:
            step_s = statistics.median(b - a for a, b in zip(self._ended_at, self._ended_at[1:], strict=False))
            if statistics.median(self._costs_s) > SHARE * step_s:
                self._notes = self._step = None
            self._costs_s, self._ended_at = [], []

    def keep(self, step: int, pieces: Sequence[TensorPiece], state: TrainingState) -> None:
        """Keep the state behind ``step`` on this node, unless another of its ranks does. Raises OSError and NoRoom."""
        facts, memory = self.facts, self.plan.memory
        mark = Mark(facts.fence, step)
        if self._step != step or (memory.own / mark.name).exists():
            return
        with suppress(FileExistsError):
            os.close(os.open(memory.buffers / f"rank-0.fence-{facts.fence}.m", os.O_CREAT | os.O_EXCL, 0o600))
            path = memory.buffers / f"rank-0.fence-{facts.fence}.l"
            snapshot = MemorySnapshot(facts.device, path=path, refuse_beyond_limit=refusing(self.plan))
            snapshot.take(pieces)
            note = PartNote(snapshot.stored_in(WHOLE), {WHOLE: snapshot.digest()}, random_state(facts.device), 0.0)
            manifest = manifest_of(facts, mark, state, {facts.rank: note})
            snapshot.name_part(mark, memory.own / mark.name / WHOLE)
            lay_down(memory.own / mark.name, manifest_text(replace(manifest, state={**manifest.state, "random": {}})))
            print(f"keeps the state of step {step} in memory: no other step can be taken", flush=True)


def note_path(memory: RunMemory, fence: int, rank: int) -> Path:
    return memory.buffers / f"rank-{rank}.fence-{fence}.n"


def with_random_states(manifest: Manifest, memory: RunMemory, here: Sequence[int], rank: int) -> Manifest | None:
    """Return the manifest of a last state with the random state of each rank; None where one is not known. The manifest
    of any other state has them. A collective; ``here`` are the ranks of this one's node, which share the reading."""
    if manifest.state["random"]:
        return manifest
    found: dict[str, RandomState] = {}
    for one in range(here.index(rank), manifest.world_size, len(here)):
        state = RandomNotes.read(note_path(memory, manifest.fence, one), manifest.step)
        if state is not None:
            found[str(one)] = state
    known = {one: state for states in gather_all(found) for one, state in states.items()}
    if len(known) < manifest.world_size:
        return None
    return replace(manifest, state={**manifest.state, "random": known})
