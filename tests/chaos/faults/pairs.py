"""Faults of which two come at once: a process is killed or stands still, a disk is full, a data cache too small, a
clock jumps, a person asks for something. What passes by itself is undone by ``Stage.undo``; a rank or a supervisor that
stands still is for Trainyard to end."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
import psutil

from tests.chaos.own_nodes import OwnNodes
from tests.chaos.scene import Scene
from tests.disks import fill
from tests.up_process import wait_until
from tests.whole.runs import FINAL
from trainyard.contract.base import JsonObject
from workers.training.data.storage.cache import limit_bytes

HOUR_S = 3600
HAS_NO_PROCESSES = (*FINAL, "PAUSED")
SERVER = ("control", "ingest", "web", "valkey")


@dataclass
class Stage:
    """Where the faults happen: one run on two of the nodes. ``compared_until`` is the last step whose loss is still
    that of a run without faults, where a person had batches left out."""

    scene: Scene
    nodes: OwnNodes
    node_names: tuple[str, ...]
    disk: Path
    clock: Path
    run: str = ""
    gap_s: float = 0.0  # between the two faults
    is_stopped: bool = False
    is_paused: bool = False
    compared_until: int | None = None
    undo: ExitStack = field(default_factory=ExitStack)

    def ask(self, what: str, body: JsonObject | None = None) -> bool:
        """Ask for an action; return whether it was accepted. A site that is away never gets it, and one whose disk is
        full cannot write it down."""
        try:
            answer = self.scene.yard.http.post(f"/runs/{self.run}/{what}", json=body or {})
        except httpx.TransportError:
            return False
        assert answer.status_code in (200, 409, 422, 503), answer.text
        return answer.status_code == 200


@dataclass(frozen=True)
class Fault:
    """``blames`` are the classes of the cause of an attempt which this ends; without any it ends none. ``is_late``: it
    ends one after a while, and the other fault may be quicker."""

    name: str
    happen: Callable[[Stage, random.Random], None]
    blames: tuple[str, ...] = ()
    is_late: bool = False


def killed(process: str, *blames: str) -> Fault:
    return Fault(f"{process} killed", partial(send_to, process=process, number=signal.SIGKILL), blames)


def stopped(process: str, *blames: str) -> Fault:
    happen = partial(send_to, process=process, number=signal.SIGSTOP)
    return Fault(f"{process} stopped", happen, blames, is_late=True)


def send_to(stage: Stage, choice: random.Random, *, process: str, number: signal.Signals) -> None:
    found: list[psutil.Process] = []

    def is_there() -> bool:
        with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError):
            found[:] = candidates(stage, process)
        return bool(found) or stage.scene.yard.run(stage.run)["status"] in HAS_NO_PROCESSES

    wait_until(is_there, f"there is a {process}", patience_s=60)
    if not found:
        return
    one = choice.choice(found)
    with contextlib.suppress(psutil.NoSuchProcess):
        one.send_signal(number)
    if number == signal.SIGSTOP and process not in ("rank", "supervisor"):
        stage.undo.callback(go_on, one)


def go_on(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGCONT)


def candidates(stage: Stage, process: str) -> list[psutil.Process]:
    if process in SERVER:
        pids = stage.scene.up.processes()
        return [psutil.Process(pids[process])] if process in pids else []
    if process in ("worker", "zygote"):
        workers = [
            psutil.Process(stage.nodes.pid(name)) for name in stage.node_names if not stage.nodes.has_ended(name)
        ]
        return workers if process == "worker" else [child for one in workers for child in named(one, "ty-zygote")]
    reports = [one for one in stage.scene.reports(stage.run) if one["phase"] == "running"]
    return [found for report in reports for found in of_attempt(report, process)]


def of_attempt(report: JsonObject, process: str) -> Iterator[psutil.Process]:
    supervisor = psutil.Process(int(report["supervisor_pid"]))
    if process == "rank":
        yield from (psutil.Process(one["pid"]) for one in report["ranks"] if one.get("ended_at") is None)
    elif process == "supervisor":
        yield supervisor
    elif process == "reaper":
        yield from (one for one in supervisor.parents() if one.name() == "ty-reaper")
    else:
        yield from named(supervisor, "ty-init")


def named(parent: psutil.Process, name: str) -> list[psutil.Process]:
    return [child for child in parent.children() if child.name() == name]


def disk_is_full(stage: Stage, _: random.Random) -> None:
    stage.undo.callback(fill(stage.disk).unlink)


def cache_is_small(stage: Stage, choice: random.Random) -> None:
    """Take a node's whole data cache, as another run's data do that are in use: what attempts read there is gone, and
    does not fit in again."""
    for cache in (stage.nodes.home(choice.choice(stage.node_names)) / "cache" / "projects").glob("*"):
        for entry in cache.iterdir():
            if entry.is_dir() and not entry.name.startswith("."):
                shutil.rmtree(entry)
        others, lock = cache / "others-data", cache / ".others-data.lock"
        stage.undo.callback(shutil.rmtree, others, ignore_errors=True)
        stage.undo.callback(os.close, in_use(lock, like=cache))
        others.mkdir()
        try:
            (others / "samples").write_bytes(bytes(limit_bytes(cache)))
        except OSError as error:
            assert error.errno == errno.ENOSPC, error  # then the disk is full, and the cache has no room either


def in_use(lock: Path, *, like: Path) -> int:
    """Return a descriptor that holds the lock of an entry of the cache; who may write ``like`` may open it."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    os.fchown(descriptor, like.stat().st_uid, like.stat().st_gid)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def clock_jumps(stage: Stage, choice: random.Random) -> None:
    stage.clock.write_text(str(choice.choice((-HOUR_S, HOUR_S))))
    stage.undo.callback(stage.clock.write_text, "0")


def pause(stage: Stage, _: random.Random) -> None:
    stage.is_paused = stage.ask("pause") or stage.is_paused


def resume(stage: Stage) -> None:
    """Once all processes go on: they bring the run to its pause."""
    wait_until(
        lambda: stage.scene.yard.run(stage.run)["status"] in HAS_NO_PROCESSES, "the run is paused", patience_s=120
    )
    stage.ask("resume")


def stop(stage: Stage, _: random.Random) -> None:
    stage.is_stopped = stage.ask("stop") or stage.is_stopped


def rewind(stage: Stage, _: random.Random) -> None:
    step = int(stage.scene.yard.run(stage.run)["step"] or 0)
    to = max(0, (step - 20) // 50 * 50)
    if stage.ask("rewind", {"to": to, "first": to + 1, "last": to + 2}):
        stage.compared_until = to
        stage.is_stopped = False  # a run that was stopped goes on from there


BY_REQUEST = ("stopped", "resized")  # a person ended the attempt
FAULTS = (
    killed("rank", "killed"),
    killed("supervisor", "process-lost"),
    killed("reaper", "process-lost"),
    killed("init", "process-lost", "killed"),
    killed("worker"),
    killed("zygote"),
    *(killed(name) for name in SERVER),
    stopped("rank", "hang"),
    stopped("supervisor", "hang", "process-lost"),
    stopped("reaper"),
    stopped("init"),
    stopped("worker"),
    stopped("zygote"),
    *(stopped(name) for name in SERVER),
    Fault("disk full", disk_is_full, ("disk-full",), is_late=True),
    Fault("cache small", cache_is_small, ("node-unfit",), is_late=True),
    Fault("clock jumps", clock_jumps),
    Fault("pause", pause, BY_REQUEST),
    Fault("stop", stop, BY_REQUEST),
    Fault("rewind", rewind, BY_REQUEST),
)
