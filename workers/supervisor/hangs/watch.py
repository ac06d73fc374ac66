"""Looks at the ranks of this node twice a second, and records in each what keeps it."""

import os
import re
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from trainyard.contract.base import to_builtins
from trainyard.contract.orders import Order
from trainyard.contract.reports import MAX_STACK_CHARACTERS, RankStall
from trainyard.spec.sections.hangs import HangRules
from trainyard.spooling.plain_files import open_plain
from workers.attempt.folder import AttemptFolder
from workers.machine.processes import STOPPED_AFTER_S, STOPPED_LIMIT_S, UNSEEN_S, is_stopped, socket_inodes, tcp_sockets
from workers.progress.description import Description, described
from workers.progress.marker import Marks
from workers.rank_process.run import STACK_SIGNAL
from workers.supervisor.ranks.activity import Activity
from workers.supervisor.ranks.state import RankState

LEAST_S = 60.0  # of auto
MEDIANS = 10
PATIENT_S = 600.0  # at least: before the first step, and in what stands beside the steps
SUSPECT_S = 5.0  # a rank without progress for so long is reported, with where it stands
PATIENT = frozenset(("data", "checkpoint", "validation", "compilation"))
WINDOW = 50
CALLS = re.compile(r'File "([^"\n]+)", line (\d+)')
BEGINNING = re.compile(r"^(Current thread|Thread) .*\(most recent call first\):", re.M)
ESTABLISHED, RETRANSMITTING, PROBING = "01", "01", "02"
LEAST_TRIES = 3  # to send again: in the first two seconds; or probes of who only waits, one a second
LASTING_TRIES = 5  # in the first 6.2 s, where the kernel waits 0.2 s before the first and doubles that each time
MOST = 8  # that are named
EVERY_S = 0.5
CUT_LIMIT_S = 7.5  # without progress, where a network is cut; one that is back after 6 s has carried something by then


class HangWatch:
    """Watch over the ranks of one attempt on one node. ``marks`` reads those of each, in the order of the ranks."""

    def __init__(
        self, order: Order, folder: AttemptFolder, marks: Sequence[Callable[[], Marks]], activity: Activity
    ) -> None:
        self._folder, self._marks = folder, marks
        self._rules = HangRules.of(order.spec)
        task = order.spec["task"]
        trains = "recipe" in task and task["recipe"] != "communication-benchmark"
        self._kind = RankTraits(counts_steps=trains, is_gang=order.world_size > 1)
        self._trackers: dict[int, Tracker] = {}
        self._activity = activity
        self._stacks = Stacks(folder)
        self._looked_at = 0.0

    def update(self, ranks: Sequence[RankState]) -> bool:
        """Record in the ranks what keeps them. Returns whether that changes the report."""
        now = time.monotonic()
        if now - self._looked_at < EVERY_S:
            return False
        self._looked_at = now
        changed = False
        for rank, read_marks in zip(ranks, self._marks, strict=False):
            stall = None
            if rank.ended_at is None and not rank.is_exiting:
                tracker = self._trackers.setdefault(rank.rank, Tracker(self._rules, self._kind, now=now))
                sample = Sample(
                    now=now,
                    at=time.time(),
                    marks=read_marks(),
                    is_stopped=any(map(is_stopped, {rank.main_pid, rank.pid})),
                    # To wait for the others of a process group is no progress: torch looks for them all the time.
                    is_alive=self._activity.take_news(rank.rank) and rank.group != "waiting",
                )
                stall = tracker.update(sample)
                if stall is not None:
                    self._add_evidence(stall, rank, sample.at)
                else:
                    self._stacks.forget(rank.rank)
            if to_builtins(stall) != to_builtins(rank.stall):
                rank.stall, changed = stall, True
        return changed

    def _add_evidence(self, stall: RankStall, rank: RankState, at: float) -> None:
        if stall.collective is not None:
            add_network(stall, rank.main_pid, at)
        if not stall.stack and not stall.is_stopped:
            if not self._stacks.was_asked(rank.rank):
                self._activity.ignore_answer(rank.rank)
            stall.stack = self._stacks.of(rank)
            stall.line = self._stacks.line_in(stall.stack)


def add_network(stall: RankStall, pid: int, at: float) -> None:
    """Record what the kernel knows of the rank's connections.

    A cut network needs no long proof, and a short cut is none: the kernel sends the bytes again, and the ranks go on.
    """
    stall.unacknowledged = unacknowledged(pid)
    if stall.unacknowledged:
        stall.limit_s = min(stall.limit_s, CUT_LIMIT_S)
        is_lasting = bool(unacknowledged(pid, least_tries=LASTING_TRIES))
        stall.is_over |= is_lasting and at - stall.since >= stall.limit_s


# Connections of a rank whose bytes nobody acknowledges, as the kernel lists them: the network behind them is cut.


def unacknowledged(pid: int, proc: Path = Path("/proc"), *, least_tries: int = LEAST_TRIES) -> list[str]:
    """Return the far ends, as ``address:port``, of the process's connections that carry nothing any more."""
    stuck = dict(_stuck(proc / str(pid) / "net", least_tries))
    if not stuck:
        return []
    return sorted(stuck[inode] for inode in socket_inodes(proc / str(pid) / "fd") & stuck.keys())[:MOST]


def _stuck(net: Path, least_tries: int) -> Iterator[tuple[str, str]]:
    """Yield inode and far end of the sockets that send the same bytes, or ask for a sign of life, again and again."""
    for _, words in tcp_sockets(net):
        if len(words) < 10 or words[3] != ESTABLISHED:
            continue
        waiting, timer = int(words[4].partition(":")[0], 16), words[5].partition(":")[0]
        tries = int(words[6], 16) if waiting and timer == RETRANSMITTING else 0
        if tries >= least_tries or (timer == PROBING and int(words[8]) >= least_tries):
            yield words[9], _address(words[2])


def _address(text: str) -> str:
    """Return ``0100007F:D2BA`` as ``127.0.0.1:53946``: words of four bytes in the machine's order."""
    address, _, port = text.partition(":")
    words = [int(address[place : place + 8], 16) for place in range(0, len(address), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    return f"{socket.inet_ntop(family, packed).removeprefix('::ffff:')}:{int(port, 16)}"


# Stacks of a rank that says nothing of itself: no process group, so no sampler, or a call that holds Python's lock.
#
# Python's fault handler writes them from a signal handler in C, into the rank's stderr, where its log shows them too.


class Stacks:
    """Asks each rank once, until it makes progress again."""

    def __init__(self, folder: AttemptFolder) -> None:
        self._folder = folder
        self._asked: dict[int, int] = {}  # bytes of its stderr by then

    def forget(self, rank: int) -> None:
        self._asked.pop(rank, None)

    def was_asked(self, rank: int) -> bool:
        return rank in self._asked

    def of(self, rank: RankState) -> str:
        """Return the rank's stacks, empty until it has written them."""
        path = self._folder.stream_path(rank.rank, "stderr")
        if rank.rank not in self._asked:
            self._asked[rank.rank] = path.lstat().st_size if path.exists() else 0
            if handles(rank.main_pid, STACK_SIGNAL):  # the signal ends any other process
                os.kill(rank.main_pid, STACK_SIGNAL)
            return ""
        try:
            with open_plain(path) as file:
                file.seek(self._asked[rank.rank])
                text = file.read(2 * MAX_STACK_CHARACTERS).decode("utf-8", "replace")
        except OSError:
            return ""
        found = BEGINNING.search(text)
        return text[found.start() :][:MAX_STACK_CHARACTERS] if found else ""

    def line_in(self, stack: str) -> str:
        """Return the innermost line of the user's own code: "train.py line 84"."""
        for file, line in CALLS.findall(stack):
            if Path(file).is_relative_to(self._folder.code):
                return f"{Path(file).relative_to(self._folder.code).as_posix()} line {line}"
        return ""


def handles(pid: int, number: int) -> bool:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    caught = next((line.split()[1] for line in lines if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (int(number) - 1) & 1)


# Progress of one rank, or its lack: rules on plain values, with the time passed in.


@dataclass(frozen=True)
class Sample:
    """A look at one rank. ``is_alive``: it has printed or worked since the last look."""

    now: float  # monotonic
    at: float  # Unix seconds
    marks: Marks
    is_stopped: bool = False
    is_alive: bool = False


@dataclass(frozen=True)
class RankTraits:
    counts_steps: bool  # a recipe that trains
    is_gang: bool  # more than one rank


class Tracker:
    """The history of one rank. ``update`` returns its stall, None while it makes progress."""

    def __init__(self, rules: HangRules, kind: RankTraits, *, now: float) -> None:
        self._rules, self._kind = rules, kind
        self._looked_at = now
        self._progressed_at = now
        self._first_step: int | None = None
        self._last: Marks | None = None
        self._moved_at = now  # the last step, or the last collective of a script
        self._pace: deque[float] = deque(maxlen=WINDOW)  # seconds
        self._stopped_at: float | None = None
        self._phase = ""
        self._phase_began_at = now
        self._longest: dict[str, float] = {}

    def update(self, sample: Sample) -> RankStall | None:
        self._forgive(sample.now)
        description = described(sample.marks.text)
        self._follow_phase("compilation" if description.is_compiling else sample.marks.phase, sample.now)
        if self._has_progressed(sample, description):
            self._progressed_at = sample.now
        self._last = sample.marks
        if sample.is_stopped:
            return self._stopped(sample, description)
        if self._stopped_at is not None:
            self._stopped_at, self._progressed_at = None, sample.now
        limit_s = self.limit_s()
        age_s = sample.now - self._progressed_at
        if limit_s is None or age_s < self._suspect_s(limit_s):
            return None
        return self._stall(sample, description, limit_s, self._progressed_at)

    def limit_s(self) -> float | None:
        """Return after how long without progress the rank counts as hung; None: by silence alone never."""
        if self._phase in PATIENT:
            return max(PATIENT_S, MEDIANS * self._longest.get(self._phase, 0.0))
        if self._pace:  # the run's own is known: after its first step, or a script's first collectives
            return self._rules.after_s or max(LEAST_S, MEDIANS * median(self._pace))
        if self._kind.counts_steps:
            return max(PATIENT_S, self._rules.after_s or 0.0)
        # Of a script nothing is known but that it neither prints nor computes: a single process may wait for work.
        return self._rules.after_s or (PATIENT_S if self._kind.is_gang else None)

    def _suspect_s(self, limit_s: float) -> float:
        if self._phase in PATIENT or not self._pace:
            return limit_s / 2
        return min(limit_s / 2, max(SUSPECT_S, 3 * median(self._pace)))

    def _forgive(self, now: float) -> None:
        """Count no time in which this process was not running: a suspended machine, or one that swaps."""
        if (unseen_s := now - self._looked_at) > UNSEEN_S:
            self._progressed_at += unseen_s
            self._phase_began_at += unseen_s
            self._moved_at += unseen_s
            if self._stopped_at is not None:
                self._stopped_at += unseen_s
        self._looked_at = now

    def _follow_phase(self, phase: str, now: float) -> None:
        if phase == self._phase:
            return
        if self._phase in PATIENT:
            self._longest[self._phase] = max(now - self._phase_began_at, self._longest.get(self._phase, 0.0))
        if self._phase in PATIENT or phase in PATIENT:
            self._progressed_at = self._moved_at = now
        self._phase, self._phase_began_at = phase, now

    def _has_progressed(self, sample: Sample, description: Description) -> bool:
        before, marks = self._last, sample.marks
        if before is None:
            return True
        has_entered = marks.entered != before.entered
        if self._kind.counts_steps:
            if marks.step != before.step:
                self._count_step(marks.step, before.step, sample.now)
                return True
            if self._pace and self._phase not in PATIENT:
                return False
        elif has_entered:
            self._count_pace(sample.now, marks.entered - before.entered)
        # A wait for other ranks may compute (NCCL's does), and it is no progress.
        return has_entered or (sample.is_alive and description.collective is None)

    def _count_step(self, step: int, before: int, now: float) -> None:
        if self._first_step is None:
            self._first_step = step
        if step > self._first_step:
            self._count_pace(now, step - max(before, self._first_step))
        self._moved_at = now

    def _count_pace(self, now: float, num: int) -> None:
        self._pace.append((now - self._moved_at) / max(1, num))
        self._moved_at = now

    def _stopped(self, sample: Sample, description: Description) -> RankStall | None:
        if self._stopped_at is None:
            self._stopped_at = sample.now
        if sample.now - self._stopped_at < STOPPED_AFTER_S:
            return None
        limit_s = min(self._rules.after_s or STOPPED_LIMIT_S, STOPPED_LIMIT_S)
        return self._stall(sample, description, limit_s, self._stopped_at)

    def _stall(self, sample: Sample, description: Description, limit_s: float, since: float) -> RankStall:
        age_s = sample.now - since
        return RankStall(
            since=round(sample.at - age_s, 1),
            limit_s=limit_s,
            is_over=age_s >= limit_s,
            is_stopped=sample.is_stopped,
            step=sample.marks.step if self._kind.counts_steps and self._first_step is not None else None,
            phase=self._phase,
            collective=description.collective,
            entered=description.entered,
            line=description.line[:200],
            stack=description.stack,
        )
