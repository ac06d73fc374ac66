"""What is said of an attempt on this node: the state of its ranks, and why it ended, in words."""

from __future__ import annotations

import os
import re
import signal
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import workers
from trainyard.lost_peers import is_of_lost_peer, lost_peer_sentence
from trainyard.spec.survival import outlives_workers
from trainyard.spooling.plain_files import open_plain
from workers.attempt.folder import AttemptFolder, read_json
from workers.contract import Document
from workers.forking.processes import Exit
from workers.supervisor.ranks.tracebacks import error_in, explained

CRASH = "Fatal Python error"
OWN_FRAME = re.compile(rf'\s*File "(?:{re.escape(str(Path(workers.__file__).parent))}{os.sep}|<frozen runpy>)')
EVIDENCE_LINES = 20
EVIDENCE_BYTES = 16_384
TRACEBACK_BYTES = 65_536

Group = Literal["unknown", "none", "waiting", "joined"]

# Why a supervisor ends its ranks, when it is not their own doing.
CAUSES = {
    "stopped": "The run was asked to stop.",
    "interrupted": "Trainyard was stopped on {node} while the run was going on.",
    "lease_expired": "{node} heard nothing from the server for {lease:g} s and ended its ranks, so that no second "
    "attempt meets them.",
    "folder_deleted": "The folder of this run on {node} was deleted while it trained. {node} ended its ranks; what "
    "they had not sent by then is lost.",
    "stale_fence": "A newer attempt of this run exists; {node} ended this one.",
}


@dataclass
class RankState:
    rank: int
    pid: int
    started_at: float
    ended_at: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    error: Document | None = None
    has_joined: bool = False  # all ranks were together by then, as far as this one tells
    group: Group = "unknown"  # what is known of a script's rank and a process group
    waiting_since: float | None = None
    has_listened: bool | None = None  # of a cold rank 0: whether MASTER_PORT was seen open
    has_torchrun: bool = True  # its variables
    was_ended: bool = False  # killed by us, since another had failed, or its time was over
    printed_at: float | None = None  # Unix seconds, to within 15 s: when it printed last…
    computed_at: float | None = None  # …and when it used more than a twentieth of a core
    exit_hang: bool = False  # its script was over, the process did not end by itself

    @property
    def has_failed(self) -> bool:
        return self.ended_at is not None and (self.signal is not None or self.exit_code != 0)

    def order_of_failing(self) -> tuple[bool, float]:
        """Whoever only felt another's end comes behind: both may be found dead in one look."""
        return self.was_ended or is_of_lost_peer(self.error), self.ended_at or 0.0

    def is_fatal(self, spec: Document) -> bool:
        """Whether its end is that of all ranks: no other can step without it. A run that outlives its workers does
        so once they are together; before that, rank 0 would wait for one that never comes."""
        is_spare = outlives_workers(spec) and self.rank != 0 and self.has_joined
        return self.has_failed and not is_spare

    def look_for_group(self, folder: AttemptFolder) -> bool:
        """Note how far a watched rank is with its process group. Returns whether that is news."""
        if self.group in ("unknown", "joined"):
            return False
        before = self.group, self.waiting_since
        if folder.joined_path(self.rank).exists():
            self.group, self.waiting_since = "joined", None
        else:
            try:
                self.group, self.waiting_since = "waiting", folder.joining_path(self.rank).stat().st_mtime
            except OSError:
                self.group, self.waiting_since = "none", None
        return before != (self.group, self.waiting_since)

    def end(self, ending: Exit, at: float, folder: AttemptFolder, *, is_cold: bool = False) -> None:
        self.ended_at = at
        self.exit_code, self.signal = ending
        self.look_for_group(folder)
        self.has_joined = folder.joined_path(self.rank).exists()
        error = read_json(folder.error_path(self.rank))
        if error is None and is_cold and self.exit_code == 1:  # Python's, by an exception: others a script chose
            error = error_in(last_text(folder.stream_path(self.rank, "stderr"), TRACEBACK_BYTES))
        self.error = error and explained(
            error, folder.code, has_joined=self.has_joined, has_no_torchrun=not self.has_torchrun
        )
        if self.exit_hang and (noted := read_json(folder.exit_path(self.rank))) is not None:
            self.exit_code, self.signal = noted["exit_code"], None

    def document(self) -> Document:
        return asdict(self)


def make_report(
    order: Document,
    *,
    at: float,
    phase: str,
    address: str = "",
    port: int | None = None,
    supervisor_pid: int | None = None,
    reason: Document | None = None,
    ranks: list[RankState] | None = None,
    producers: dict[str, int] | None = None,
    is_leased: bool = False,
) -> Document:
    return {
        "at": at,
        "attempt": order["attempt"],
        "run": order["run"],
        "fence": order["fence"],
        "node": order["node"],
        "phase": phase,
        "address": address,
        "port": port,
        "supervisor_pid": supervisor_pid,
        "reason": reason,
        "ranks": [rank.document() for rank in ranks or []],
        "producers": producers or {},
        "is_leased": is_leased,
    }


def reason_of(order: Document, ranks: list[RankState], cause: str | None, folder: AttemptFolder) -> Document | None:
    """Return why the attempt ended here: None when every rank ended with 0.

    A failure that came before anybody asked for the end is the reason, whatever followed from it.
    """
    if cause in CAUSES:
        sentence = CAUSES[cause].format(node=order["node_name"], lease=order["lease_s"])
        return {"code": cause, "sentence": sentence, "evidence": {"node": order["node_name"]}}
    failed = sorted((rank for rank in ranks if rank.has_failed), key=RankState.order_of_failing)
    return reason_of_rank(order, failed[0], folder) if failed else None


def reason_of_rank(order: Document, rank: RankState, folder: AttemptFolder) -> Document:
    who = f"Rank {rank.rank} on {order['node_name']}"
    if rank.signal is not None:
        code, sentence = "rank_killed", f"{who} was ended by {signal_name(rank.signal)}."
    elif is_of_lost_peer(rank.error):
        assert rank.error is not None
        code, sentence = "rank_failed", lost_peer_sentence(who, rank.error)
    elif rank.error is not None:
        what = f"{rank.error['type']}: {rank.error['message']}".rstrip(": ").split("\n")[0][:300]
        code, sentence = "rank_failed", f"{who} raised {what}"
    else:
        code, sentence = "rank_failed", f"{who} ended with exit code {rank.exit_code}."
    evidence = {
        "rank": rank.rank,
        "node": order["node_name"],
        "exit_code": rank.exit_code,
        "signal": rank.signal,
        "error": rank.error,
        "stderr": last_lines(folder.stream_path(rank.rank, "stderr")),
        "stdout": last_lines(folder.stream_path(rank.rank, "stdout")),
    }
    return {"code": code, "sentence": sentence, "evidence": evidence}


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def last_lines(path: Path) -> list[str]:
    """Return the last lines of a stream without our own frames, or those from where Python itself crashed."""
    lines = [line for line in last_text(path, EVIDENCE_BYTES).splitlines() if not OWN_FRAME.match(line)]
    crashes = [place for place, line in enumerate(lines) if line.startswith(CRASH)]
    return lines[crashes[-1] :][:EVIDENCE_LINES] if crashes else lines[-EVIDENCE_LINES:]


def last_text(path: Path, num_bytes: int) -> str:
    try:
        with open_plain(path) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - num_bytes))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
