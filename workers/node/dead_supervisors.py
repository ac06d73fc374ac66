"""Attempts whose supervisor is gone, or does not go on: end their processes, and write the final report with the
proof."""

import signal
import time
from collections.abc import Callable, Mapping

import structlog
from msgspec.structs import replace

from trainyard.contract.orders import Order
from trainyard.contract.reports import AttemptReport, Reason
from trainyard.contract.statuses import Phase
from trainyard.failures.ranks import ending_sentence
from trainyard.spooling.reader import last_sequences
from workers.attempt.folder import AttemptFolder
from workers.attempt.temporary import take_name
from workers.machine import processes
from workers.machine.processes import STOPPED_AFTER_S, STOPPED_LIMIT_S, UNSEEN_S, Process, send
from workers.supervisor.records.log_tail import save_unread_output
from workers.supervisor.reports import make_report
from workers.transport.control_socket import socket_path

log = structlog.get_logger(__name__)

SWEEP_LIMIT_S = 30.0
UNANSWERED_LIMIT_S = 30.0  # a supervisor that is to stop and does not answer for so long is ended with its ranks
STOPPED_TOO_LONG = "supervisor_stopped"  # the code of the reason


class StillAlive(RuntimeError):
    """Processes of the attempt do not end, so it is not over."""


class Standstills:
    """Supervisors that live and do not go on. Such a one is killed: its reaper then ends the ranks, which may still
    train beside those of a newer attempt. ``look`` and ``answered`` may be called from different threads."""

    def __init__(self) -> None:
        self._stopped: dict[str, float] = {}  # since when the kernel has stopped them, by attempt; monotonic
        self._unanswered: dict[str, float] = {}  # since when they do not answer a request to stop
        self._looked_at = 0.0
        self.killed: dict[str, str] = {}  # by attempt: the code of the reason

    def look(self, living: Mapping[str, int], *, may_end: Callable[[str], bool]) -> bool:
        """Take note of which of the supervisors (pid by attempt) are stopped, and end those that have been for long.
        Returns whether others are to be reported than before."""
        now, before = time.monotonic(), self.stopped()
        unseen_s = now - self._looked_at if now - self._looked_at > UNSEEN_S else 0.0
        self._looked_at = now
        stopped = [attempt for attempt, pid in living.items() if processes.is_stopped(pid)]
        self._stopped = {attempt: self._stopped.get(attempt, now - unseen_s) + unseen_s for attempt in stopped}
        for attempt, since in self._stopped.items():
            if now - since > STOPPED_LIMIT_S and may_end(attempt):
                self._kill(attempt, living[attempt], STOPPED_TOO_LONG)
        return self.stopped() != before

    def stopped(self) -> set[str]:
        """Return the attempts whose supervisors have been stopped for STOPPED_AFTER_S at the last look, and those that
        were killed for it and whose end is not reported yet."""
        stopped = {attempt for attempt, since in self._stopped.items() if self._looked_at - since >= STOPPED_AFTER_S}
        return stopped | {attempt for attempt, code in list(self.killed.items()) if code == STOPPED_TOO_LONG}

    def answered(self, attempt: str, pid: int | None = None) -> None:
        """Take note of whether a supervisor that is to stop has answered; ``pid``: this one has not."""
        if pid is None:
            self._unanswered.pop(attempt, None)
        elif time.monotonic() - self._unanswered.setdefault(attempt, time.monotonic()) > UNANSWERED_LIMIT_S:
            self._kill(attempt, pid, "supervisor_unanswering")

    def _kill(self, attempt: str, pid: int, code: str) -> None:
        log.warning("supervisor.ended", attempt=attempt, supervisor=pid, code=code)
        self.killed[attempt] = code
        send(pid, signal.SIGKILL)


def finish_dead(folder: AttemptFolder, killed: str = "") -> AttemptReport:
    """End what a dead supervisor left and write the final report. ``killed``: the code of the reason for which this
    node killed it. Raises StillAlive."""
    order = folder.order()
    assert order is not None
    last = folder.report()
    ended = _sweep(order, folder)
    save_unread_output(order, folder)
    now = time.time()
    error = folder.error_mark.read_text() if folder.error_mark.exists() else ""
    code = killed or ("supervisor_failed" if error else "supervisor_killed")
    code = "fence_killed" if folder.reaper_mark.exists() else code
    reason = Reason(
        code=code,
        sentence=ending_sentence(code, order.node_name, error=error),
        evidence={
            "node": order.node_name,
            "supervisor_pid": None if last is None else last.supervisor_pid,
            "checked_processes": len(folder.recorded_processes()),
            "swept_processes": len(ended),
        },
    )
    # A rank that nobody waited for has no exit code; that it is gone was just checked.
    ranks = [replace(rank, ended_at=rank.ended_at or now) for rank in (last.ranks if last is not None else [])]
    sent = last_sequences(folder.spool)
    report = make_report(order, at=now, phase=Phase.ENDED, reason=reason, ranks=ranks, producers=sent)
    folder.write_report(report)
    socket_path(folder.path).unlink(missing_ok=True)
    take_name(folder.temporary, folder.attempt)
    log.warning("attempt.finished_for_dead", attempt=folder.attempt, swept=len(ended))
    return report


def _sweep(order: Order, folder: AttemptFolder) -> set[Process]:
    """Kill the recorded processes and all that carry the attempt in their environment, until none is left.

    Forked ranks show the zygote's environment, hence the record; what they exec'd shows theirs, hence the token.
    """
    killed: set[Process] = set()
    deadline = time.monotonic() + SWEEP_LIMIT_S
    while True:
        alive = [process for process in folder.recorded_processes() if processes.is_alive(process)]
        alive += [processes.identify(pid) for process in alive for pid in processes.descendants_of(process.pid)]
        alive += processes.with_environment(TRAINYARD_ATTEMPT=order.attempt, TRAINYARD_NODE=order.node_name)
        if not alive:
            return killed
        if time.monotonic() > deadline:
            raise StillAlive(f"{len(alive)} processes of attempt {order.attempt} do not end")
        killed.update(process for process in alive if send(process.pid, signal.SIGKILL))
        time.sleep(0.01)
