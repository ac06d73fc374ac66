"""Taking states into memory: a copy while training waits, all the rest in a thread beside it."""

import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch.distributed as dist

from trainyard.contract.base import WireStruct, decode, encode
from trainyard.contract.facts import IN_MEMORY, InMemoryFacts
from trainyard.spec.sections.train import Checkpoint
from workers.replicas.folders import MemoryFolder, NoRoom, ReplicaPlan
from workers.replicas.sending import MANIFEST, PeerConnection, PeerFailed, StatePart
from workers.training.checkpoints import manifest as manifests
from workers.training.checkpoints.manifest import Manifest, StoredFile, TrainingState
from workers.training.checkpoints.parts import PartNote
from workers.training.checkpoints.pieces import TensorPiece
from workers.training.checkpoints.random_state import RandomState, random_state
from workers.training.checkpoints.saving import AttemptFacts, Background, manifest_of, off_record, record_of
from workers.training.checkpoints.store import Mark
from workers.training.group import gather_all
from workers.training.metrics import Metrics, facts_record
from workers.training.replicas.interval import Interval
from workers.training.replicas.snapshots import MemorySnapshot, commit

POLL_S = 0.005
MAX_POLL_S = 0.05
PARTS_TIMEOUT_S = 60.0
WAIT_S = 2.0  # training waits so long for the state before, and leaves one out then
DECIDE_S = 30.0  # …and for the one that shows what a state costs
REPORT_EVERY_S = 2.0  # facts about the newest state


class GivenUp(Exception):
    """A state that will not be whole. ``is_final``: nor will any later one."""

    def __init__(self, why: str, *, is_final: bool = False) -> None:
        super().__init__(why)
        self.is_final = is_final


@dataclass(slots=True)
class Taken:
    """A rank's part of a state, on its way."""

    mark: Mark
    snapshot: MemorySnapshot
    state: TrainingState
    random: RandomState
    stall_s: float
    problem: str = ""  # why there is no part
    is_logged: bool = True  # the points of its steps are in the spool


@dataclass(slots=True)
class Replicas:
    """Keeps the newest state of a training in the memory of its nodes. One is taken at a time."""

    plan: ReplicaPlan
    facts: AttemptFacts
    metrics: Metrics
    interval: Interval
    keeper: bool  # of this node's ranks, the one that lays down manifests and removes what is old
    nodes: tuple[str, ...]  # names of all nodes of the attempt
    cost_s: float | None = None  # of the last state: what it took of this rank's processor time
    is_off: bool = False
    _peer: PeerConnection | None = None
    _had_copies: bool = False  # states of this attempt were whole on a second node too
    _peer_problems: list[str] = field(default_factory=list)
    _snapshots: list[MemorySnapshot] = field(init=False)
    _committed: Mark | None = None
    _background: Background = field(default_factory=partial(Background, "replicas"))
    _is_due: bool = False
    _reported: set[str] = field(default_factory=set)
    _reported_at: float = 0.0
    _board: "Board" = field(init=False)

    def __post_init__(self) -> None:
        facts, memory, plan = self.facts, self.plan.memory, self.plan
        paths = (memory.buffers / f"rank-{facts.rank}.fence-{facts.fence}.{letter}" for letter in "ab")
        self._snapshots = [MemorySnapshot(facts.device, path=one, refuse_beyond_limit=refusing(plan)) for one in paths]
        self._board = Board(f"replicas/{facts.fence}")
        if (peer := plan.peer) is not None:
            self._peer = PeerConnection(peer.node, peer.address, peer.port, attempt=plan.attempt, key=plan.key)

    def after_step(
        self,
        step: int,
        pieces: Callable[[], Sequence[TensorPiece]],
        state: Callable[[], TrainingState],
        *,
        is_agreed: bool,
    ) -> None:
        """Take the state where it is due, or as soon after as the ranks hold the same weights."""
        self.interval.entered()
        if self.interval.is_deciding:  # every rank is here, whatever became of its states
            self.wait(DECIDE_S)
            self.interval.decide(self.cost_s)
        self._is_due = not self.is_off and (self._is_due or self.interval.is_due(step))
        if self._is_due and is_agreed:
            self._is_due = False
            self._take(Mark(self.facts.fence, step), pieces, state)
        self.interval.left()

    def wait(self, timeout_s: float) -> bool:
        """Return whether nothing is on its way any more."""
        return self._background.wait(timeout_s)

    def _take(
        self, mark: Mark, pieces: Callable[[], Sequence[TensorPiece]], state: Callable[[], TrainingState]
    ) -> None:
        started = time.perf_counter()
        if not self.wait(WAIT_S):
            why = "the state before is still on its way"
            if self.facts.rank == 0:
                self._board.put(answer_name(mark), encode(StateMessage(why=why)))
            else:
                self._board.put(part_name(mark, self.facts.rank), encode(PartMessage(why=why)))
            return
        snapshot = next(one for one in self._snapshots if one.mark is None or one.mark != self._committed)
        problem = ""
        try:
            snapshot.withdraw()
            self.plan.memory.buffers.mkdir(mode=0o700, parents=True, exist_ok=True)
            snapshot.take(pieces())
        except (OSError, NoRoom) as error:
            problem = str(error)
        taken = Taken(mark, snapshot, state(), random_state(self.facts.device), 0.0, problem)
        taken.stall_s = time.perf_counter() - started
        self._background.start(self._keep, taken)

    # In the thread.

    def _keep(self, taken: Taken) -> None:
        began_s = time.thread_time()
        try:
            # First: behind a state that counts nobody logs its steps again.
            taken.is_logged = self.metrics.flush()
            self._board.put(part_name(taken.mark, self.facts.rank), encode(self._part(taken)))
            if self.facts.rank == 0:
                answer = self._complete(taken)
                self._board.put(answer_name(taken.mark), encode(answer))
            else:
                answer = decode(self._board.wait_for(answer_name(taken.mark), PARTS_TIMEOUT_S), StateMessage)
            self._commit(taken, answer)
        # Whatever it is: a state that cannot be kept in memory is no reason to end a training.
        except Exception as error:
            self._report_problem(taken.mark, f"{type(error).__name__}: {error}")
        own_s = time.thread_time() - began_s if self.facts.device.type == "cpu" else 0.0
        own_s *= 1 if self._peer is None else 2  # this node receives as much as it sends
        self.cost_s = taken.stall_s + own_s

    def _part(self, taken: Taken) -> "PartMessage":
        """Lay down this rank's part, and return what rank 0 needs to know of it."""
        if taken.problem:
            return PartMessage(why=taken.problem, is_final=True)
        if not taken.is_logged:
            return PartMessage(why="the spool does not take the points of its steps")
        snapshot, name = taken.snapshot, f"rank-{self.facts.rank}.safetensors"
        tensors = snapshot.stored_in(name)
        files, problem = {}, ""
        if tensors:
            files[name] = snapshot.digest()
            snapshot.name_part(taken.mark, self.plan.memory.own / taken.mark.name / name)
            problem = self._send(taken.mark, name, [memoryview(snapshot.header), snapshot.data], files[name])
        return PartMessage(note=encode(PartNote(tensors, files, taken.random, taken.stall_s)), peer_problem=problem)

    def _send(self, mark: Mark, name: str, pieces: Sequence[memoryview], stored: StoredFile) -> str:
        """Have the other node keep it too; return why it does not."""
        if self._peer is None:
            return ""
        part = StatePart(
            run=self.facts.run, fence=mark.fence, step=mark.step, name=name, bytes=stored.bytes, sha256=stored.sha256
        )
        try:
            self._peer.send(part, pieces)
        except PeerFailed as error:
            return str(error)
        return ""

    def _complete(self, taken: Taken) -> "StateMessage":
        """Return, on rank 0, the manifest once all parts are whole, or why there is no such state."""
        facts = self.facts
        try:
            notes = {rank: self._note_of(taken.mark, rank) for rank in facts.writers}
            num_copies = self._count_copies(taken.mark)
        except GivenUp as error:
            return StateMessage(why=f"{error}", is_final=error.is_final)
        manifest = manifest_of(facts, taken.mark, taken.state, notes)
        stall_s = max(note.stall_s for note in notes.values())
        return StateMessage(manifest=manifests.manifest_text(manifest), stall_s=stall_s, num_copies=num_copies)

    def _note_of(self, mark: Mark, rank: int) -> PartNote:
        part = decode(self._board.wait_for(part_name(mark, rank), PARTS_TIMEOUT_S), PartMessage)
        if part.why:
            raise GivenUp(f"rank {rank}: {part.why}", is_final=part.is_final)
        if part.peer_problem:
            self._peer_problems.append(f"rank {rank}: {part.peer_problem}")
        return PartNote.of(part.note)

    def _count_copies(self, mark: Mark) -> int:
        """Return on how many nodes each part lies. Raises GivenUp where it is one, and a state before lies on two."""
        problems, self._peer_problems = self._peer_problems, []
        if not problems:
            self._had_copies = self.plan.peer is not None
            return 2 if self._had_copies else 1
        if self._had_copies:  # that one survives the loss of a node, as this one would not
            raise GivenUp(f"it would lie on one node alone: {problems[0]}")
        self._report_problem(mark, f"each part lies on one node alone: {problems[0]}")
        return 1

    def _commit(self, taken: Taken, answer: "StateMessage") -> None:
        """Let the state count here, or give it up."""
        if answer.why:
            self.is_off = self.is_off or answer.is_final
            self._report_problem(taken.mark, answer.why)
            return
        if self.keeper:
            commit(self.plan.memory, taken.mark, answer.manifest)
            data = answer.manifest.encode()
            stored = StoredFile(len(data), hashlib.sha256(data).hexdigest())
            if answer.num_copies > 1 and (problem := self._send(taken.mark, MANIFEST, [memoryview(data)], stored)):
                print(f"the manifest of {taken.mark.name} did not reach its second node: {problem}", flush=True)
        before, self._committed = self._committed, taken.mark
        if self.facts.rank == 0:
            if before is not None:
                self._board.remove([*(part_name(before, rank) for rank in self.facts.writers), answer_name(before)])
            self._report(taken.mark, manifests.parse_manifest(answer.manifest), answer)

    def _report(self, mark: Mark, manifest: Manifest, answer: "StateMessage") -> None:
        now = time.monotonic()
        if now - self._reported_at < REPORT_EVERY_S:
            return
        self._reported_at = now
        found = InMemoryFacts(
            step=mark.step,
            fence=mark.fence,
            bytes=manifest.num_bytes,
            every_steps=self.interval.every,
            stall_s=answer.stall_s,
            num_copies=answer.num_copies,
            nodes=list(self.nodes),
        )
        self.metrics.report(facts_record(IN_MEMORY, found))

    def _report_problem(self, mark: Mark, why: str) -> None:
        """Say once what keeps states from memory; training goes on."""
        if self.facts.rank != 0 or why in self._reported:
            return
        self._reported.add(why)
        print(f"the state of step {mark.step} is not kept in memory, training goes on: {why}", flush=True)
        self.metrics.report(record_of("off", self.facts.run, mark, why=why, memory=self.plan.node or "a node"))


def open_replicas(
    plan: ReplicaPlan, given: Checkpoint, facts: AttemptFacts, metrics: Metrics, *, is_writer: bool
) -> Replicas | None:
    """Return what takes states into memory; None where a node of the run has no room for any. A collective."""
    places: list[tuple[str, str]] = gather_all((plan.node, plan.folder))
    if problems := [problem for problem in gather_all(plan.problem) if problem]:
        if facts.rank == 0:
            print(f"no states are kept in memory, training goes on without: {problems[0]}", flush=True)
            metrics.report(off_record(facts.run, facts.fence, problems[0], memory=plan.node or "a node"))
        return None
    if not is_writer:
        return None
    agree = (lambda own: own) if len(facts.writers) < facts.world_size else (lambda own: max(gather_all(own)))
    interval = Interval(given.replicate_every_steps, given.every_steps, agree)
    nodes = tuple(dict.fromkeys(node for node, _ in places))
    keeper = places.index((plan.node, plan.folder)) == facts.rank
    return Replicas(plan, facts, metrics, interval, keeper, nodes)


def part_name(mark: Mark, rank: int) -> str:
    return f"{mark.name}/{rank}"


def answer_name(mark: Mark) -> str:
    return f"{mark.name}/answer"


def refusing(plan: ReplicaPlan) -> Callable[[int, int], None]:
    """Return what raises NoRoom for bytes that do not fit into the node's memory folder."""
    return MemoryFolder(Path(plan.folder), plan.limit_bytes).refuse_beyond_limit


# Messages of ranks to each other on the board while a state goes into memory.


class PartMessage(WireStruct):
    """A message from each rank to rank 0: the note of its part, or why there is none."""

    note: str = ""  # a ``PartNote`` as JSON
    peer_problem: str = ""  # why the part does not lie on a second node
    why: str = ""
    is_final: bool = False  # nor will there be a part of any later state


class StateMessage(WireStruct):
    """A message from rank 0 to all: the manifest of the state, which is whole, or why it is given up."""

    manifest: str = ""
    stall_s: float = 0.0  # for which training stood still, on the slowest rank
    num_copies: int = 0
    why: str = ""
    is_final: bool = False


# Short texts that ranks leave for each other while they train: a collective of the training must not be disturbed.


class Board:
    """Texts by name in the store through which the ranks found each other. Any thread may use it."""

    def __init__(self, name: str) -> None:
        self._store = dist.distributed_c10d._get_default_store()
        self._name = name

    def put(self, name: str, text: str) -> None:
        self._store.set(self._key(name), text)

    def wait_for(self, name: str, timeout_s: float) -> str:
        """Return the text once it is there. Raises GivenUp."""
        key, deadline, pause_s = self._key(name), time.monotonic() + timeout_s, POLL_S
        while not self._store.check([key]):
            if time.monotonic() > deadline:
                raise GivenUp(f"{name} did not come within {timeout_s:g} s")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, MAX_POLL_S)
        return self._store.get(key).decode()

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            self._store.delete_key(self._key(name))

    def _key(self, name: str) -> str:
        return f"trainyard/{self._name}/{name}"
