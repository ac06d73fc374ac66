"""Attempts whose supervisor is gone: make sure that nobody of theirs runs, say so with the proof, ship what is left."""

from __future__ import annotations

import signal
import time

import structlog

from trainyard.spooling.reader import last_sequences
from workers.attempt.folder import AttemptFolder
from workers.contract import Document
from workers.forking.processes import Process, descendants_of, identify, is_alive, send, with_environment
from workers.supervisor.records.log_tail import save_last_words
from workers.supervisor.reports import make_report
from workers.transport.control_socket import socket_path

log = structlog.get_logger(__name__)

SWEEP_LIMIT_S = 30.0


class StillAlive(RuntimeError):
    """Processes of the attempt do not die; nobody may say that it is over."""


def bury(folder: AttemptFolder) -> Document:
    """End what a dead supervisor left and write the final report. Raises StillAlive."""
    order = folder.order()
    assert order is not None
    last = folder.report() or {}
    ended = _sweep(order, folder)
    save_last_words(order, folder)
    now = time.time()
    who = "fence" if folder.fence_mark.exists() else "supervisor"
    report = make_report(
        order,
        at=now,
        phase="ended",
        reason={
            "code": f"{who}_killed",
            "sentence": f"The {who} on {order['node_name']} was killed; its ranks ended with it.",
            "evidence": {
                "node": order["node_name"],
                "supervisor_pid": last.get("supervisor_pid"),
                "checked_processes": len(folder.recorded_processes()),
                "swept_processes": len(ended),
            },
        },
        producers=last_sequences(folder.spool),
    )
    # What nobody waited for has no exit code; that it is gone was just seen.
    report["ranks"] = [{**rank, "ended_at": rank["ended_at"] or now} for rank in last.get("ranks", [])]
    folder.write_report(report)
    socket_path(folder.path).unlink(missing_ok=True)
    log.warning("attempt.buried", attempt=folder.attempt, swept=len(ended))
    return report


def never_started(entry: Document, *, attempt: str, node: str, code: str, sentence: str, phase: str) -> Document:
    """Return the final report of an attempt of which nothing ever ran here."""
    order = {"attempt": attempt, "run": entry["run"], "fence": entry["fence"], "node": node}
    reason = {"code": code, "sentence": sentence, "evidence": {}}
    return make_report(order, at=time.time(), phase=phase, reason=reason)


def _sweep(order: Document, folder: AttemptFolder) -> set[Process]:
    """Kill the recorded processes and all that carry the attempt in their environment, until none is left.

    Forked ranks show the zygote's environment, hence the record; what they exec'd shows theirs, hence the token.
    """
    killed: set[Process] = set()
    deadline = time.monotonic() + SWEEP_LIMIT_S
    while True:
        alive = [process for process in folder.recorded_processes() if is_alive(process)]
        alive += [identify(pid) for process in alive for pid in descendants_of(process.pid)]
        alive += with_environment(TRAINYARD_ATTEMPT=order["attempt"], TRAINYARD_NODE=order["node_name"])
        if not alive:
            return killed
        if time.monotonic() > deadline:
            raise StillAlive(f"{len(alive)} processes of attempt {order['attempt']} do not end")
        for process in alive:
            if send(process.pid, signal.SIGKILL):
                killed.add(process)
        time.sleep(0.01)
