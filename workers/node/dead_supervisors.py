"""Attempts whose supervisor is gone: end their processes, and write the final report with the proof."""

from __future__ import annotations

import signal
import time

import structlog
from msgspec.structs import replace

from trainyard.contract.orders import Order
from trainyard.contract.reports import AttemptReport, Reason
from trainyard.contract.statuses import Phase
from trainyard.failures.node_endings import ending_sentence
from trainyard.spooling.reader import last_sequences
from workers.attempt.folder import AttemptFolder
from workers.attempt.temporary import take_name
from workers.machine.processes import Process, descendants_of, identify, is_alive, send, with_environment
from workers.supervisor.records.log_tail import save_unread_output
from workers.supervisor.reports import make_report
from workers.transport.control_socket import socket_path

log = structlog.get_logger(__name__)

SWEEP_LIMIT_S = 30.0


class StillAlive(RuntimeError):
    """Processes of the attempt do not end, so it is not over."""


def finish_dead(folder: AttemptFolder) -> AttemptReport:
    """End what a dead supervisor left and write the final report. Raises StillAlive."""
    order = folder.order()
    assert order is not None
    last = folder.report()
    ended = _sweep(order, folder)
    save_unread_output(order, folder)
    now = time.time()
    code = "fence_killed" if folder.reaper_mark.exists() else "supervisor_killed"
    reason = Reason(
        code=code,
        sentence=ending_sentence(code, order.node_name),
        evidence={
            "node": order.node_name,
            "supervisor_pid": None if last is None else last.supervisor_pid,
            "checked_processes": len(folder.recorded_processes()),
            "swept_processes": len(ended),
        },
    )
    # A rank that nobody waited for has no exit code; that it is gone was just checked.
    ranks = [replace(rank, ended_at=rank.ended_at or now) for rank in (last.ranks if last is not None else [])]
    report = make_report(
        order, at=now, phase=Phase.ENDED, reason=reason, ranks=ranks, producers=last_sequences(folder.spool)
    )
    folder.write_report(report)
    socket_path(folder.path).unlink(missing_ok=True)
    take_name(folder)
    log.warning("attempt.finished_for_dead", attempt=folder.attempt, swept=len(ended))
    return report


def _sweep(order: Order, folder: AttemptFolder) -> set[Process]:
    """Kill the recorded processes and all that carry the attempt in their environment, until none is left.

    Forked ranks show the zygote's environment, hence the record; what they exec'd shows theirs, hence the token.
    """
    killed: set[Process] = set()
    deadline = time.monotonic() + SWEEP_LIMIT_S
    while True:
        alive = [process for process in folder.recorded_processes() if is_alive(process)]
        alive += [identify(pid) for process in alive for pid in descendants_of(process.pid)]
        alive += with_environment(TRAINYARD_ATTEMPT=order.attempt, TRAINYARD_NODE=order.node_name)
        if not alive:
            return killed
        if time.monotonic() > deadline:
            raise StillAlive(f"{len(alive)} processes of attempt {order.attempt} do not end")
        for process in alive:
            if send(process.pid, signal.SIGKILL):
                killed.add(process)
        time.sleep(0.01)
