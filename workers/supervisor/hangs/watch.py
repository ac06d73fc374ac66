"""Looks at the ranks of this node twice a second, and records in each what keeps it."""

import os
import re
import socket
import struct
import time
from collections.abc import Sequence
from pathlib import Path

from trainyard.contract.base import to_builtins
from trainyard.contract.orders import Order
from trainyard.contract.reports import MAX_STACK_CHARACTERS, RankStall
from trainyard.spec.sections.hangs import HangRules
from trainyard.spooling.plain_files import open_plain
from workers.attempt.folder import AttemptFolder
from workers.machine.processes import STOPPED, socket_inodes, state_of
from workers.progress.marker import Marker
from workers.rank_process.cold_rank import MarksFile
from workers.rank_process.run import STACK_SIGNAL
from workers.supervisor.hangs.tracker import RankTraits, Sample, Tracker
from workers.supervisor.ranks.activity import Activity
from workers.supervisor.ranks.state import RankState

CALLS = re.compile(r'File "([^"\n]+)", line (\d+)')
BEGINNING = re.compile(r"^(Current thread|Thread) .*\(most recent call first\):", re.M)
TABLES = ("tcp", "tcp6")
ESTABLISHED, RETRANSMITTING = "01", "01"
LEAST_TRIES = 3  # to send again: in the first two seconds
LASTING_TRIES = 5  # in the first 6.2 s, where the kernel waits 0.2 s before the first and doubles that each time
MOST = 8  # that are named
EVERY_S = 0.5
CUT_LIMIT_S = 7.5  # without progress, where a network is cut; one that is back after 6 s has carried something by then


class HangWatch:
    """Watch over the ranks of one attempt on one node. ``markers`` are in the order of the ranks."""

    def __init__(
        self, order: Order, folder: AttemptFolder, markers: Sequence[Marker | MarksFile], activity: Activity
    ) -> None:
        self._folder = folder
        self._markers = markers
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
        for rank, marker in zip(ranks, self._markers, strict=False):
            stall = None
            if rank.ended_at is None and not rank.is_exiting:
                tracker = self._trackers.setdefault(rank.rank, Tracker(self._rules, self._kind, now=now))
                sample = Sample(
                    now=now,
                    at=time.time(),
                    marks=marker.read(),
                    is_stopped=any(state_of(pid) == STOPPED for pid in {rank.main_pid, rank.pid}),
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
    tables = (proc / str(pid) / "net" / table for table in TABLES)
    stuck = {inode: far for table in tables for inode, far in _stuck(table, least_tries)}
    if not stuck:
        return []
    return sorted(stuck[inode] for inode in socket_inodes(proc / str(pid) / "fd") & stuck.keys())[:MOST]


def _stuck(table: Path, least_tries: int) -> list[tuple[str, str]]:
    """Return inode and far end of the sockets that send the same bytes again and again."""
    try:
        lines = table.read_text().splitlines()[1:]
    except OSError:
        return []
    found = []
    for line in lines:
        words = line.split()
        if len(words) < 10 or words[3] != ESTABLISHED:
            continue
        waiting, timer, tries = words[4].partition(":")[0], words[5].partition(":")[0], int(words[6], 16)
        if int(waiting, 16) > 0 and timer == RETRANSMITTING and tries >= least_tries:
            found.append((words[9], _address(words[2])))
    return found


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
    """Return whether the process has a handler for the signal."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    caught = next((line.split()[1] for line in lines if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (int(number) - 1) & 1)
