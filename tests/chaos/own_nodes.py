"""Nodes of their own beside a Trainyard: machines, as far as one machine can play several. Each may die as a whole."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import psutil

from dashboard.up.parent_death import tethered
from tests.servers import short_folder
from tests.up_process import OURS, ROOT, Up, new_home, wait_until
from tests.whole.runs import Document, Yard
from workers.attempt.folder import AttemptFolder
from workers.machine.processes import is_alive

IN_CONTACT_S = 90.0
NOTHING: Mapping[str, str] = MappingProxyType({})


class OwnNodes:
    """Call ``start`` for each, and ``close`` at the end."""

    def __init__(self, up: Up, yard: Yard) -> None:
        self._up, self._yard = up, yard
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(
        self,
        name: str,
        *,
        slots: int = 1,
        prefix: Sequence[str] = (),
        address: str = "127.0.0.1",
        environment: Mapping[str, str] = NOTHING,
        folder: Path = ROOT,
    ) -> None:
        """Start the node, for the first time or again. ``prefix`` stands before its command, ``address`` is its own,
        and its code is that of ``folder``."""
        variables = {**{key: value for key, value in os.environ.items() if not key.startswith(OURS)}, **environment}
        variables["TRAINYARD_CORES"] = "1"  # more threads than that slow each other down
        variables["TRAINYARD_CHECKPOINTS"] = str(self._up.home / "checkpoints")
        words = ["--home", str(self._up.home), "--name", name, "--slots", str(slots), "--address", address]
        if not (self.home(name) / "node.toml").exists():
            cluster = next(one for one in self._yard.get("/clusters")["items"] if one["name"] == "local")
            variables["TRAINYARD_JOIN"] = self._yard.post(f"/clusters/{cluster['id']}/join-tokens")["token"]
        command = [*prefix, sys.executable, "-m", "workers.node", *words, "--server", self._up.url]
        with (self._up.home / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                tethered(command), cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def start_all(self, *names: str) -> None:
        for name in names:
            self.start(name)
        self.wait_for_contact(*names)

    def wait_for_contact(self, *names: str) -> None:
        wait_until(lambda: set(names) <= in_contact(self._yard), f"{names} are in contact", patience_s=IN_CONTACT_S)

    def has_ended(self, name: str) -> bool:
        return self._processes[name].poll() is not None

    def pid(self, name: str) -> int:
        """Return the id of its node worker."""
        return self._processes[name].pid

    def folder_of(self, name: str) -> Path:
        """Return the folder whose code the node runs."""
        return Path(psutil.Process(self._processes[name].pid).cwd())

    def log(self, name: str) -> str:
        return (self._up.home / f"{name}.log").read_text(errors="replace")

    def home(self, name: str) -> Path:
        return self._up.home / "nodes" / name

    def pids(self, name: str) -> list[int]:
        """Return the node worker and all that it and its attempts' supervisors started."""
        found = {self._processes[name].pid}
        folders = [AttemptFolder(path) for path in (self.home(name) / "attempts").glob("*")]
        known = (process for folder in folders for process in folder.recorded_processes())
        found |= {process.pid for process in known if is_alive(process)}
        for pid in list(found):
            with contextlib.suppress(psutil.NoSuchProcess):
                found |= {child.pid for child in psutil.Process(pid).children(recursive=True)}
        return [pid for pid in found if psutil.pid_exists(pid)]

    def kill(self, name: str) -> None:
        """Kill the whole node at once: nothing of it sees another part of it die."""
        pids = set[int]()
        while new := set(self.pids(name)) - pids:  # what one of them started meanwhile stands still too
            send_signal(signal.SIGSTOP, new)
            pids |= new
        send_signal(signal.SIGKILL, pids)
        self._processes[name].wait(timeout=20)

    def start_the_dead(self) -> None:
        """Start those that were killed. One that is only slow to be in contact is there, and would be two."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                self.start(name)

    def close(self) -> None:
        for name, process in self._processes.items():
            if process.poll() is None:
                self.kill(name)


def send_signal(number: signal.Signals, pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@contextmanager
def trainyard_with_own_nodes(**environment: str) -> Iterator[tuple[Up, Yard, OwnNodes]]:
    """A Trainyard without nodes, and nobody's nodes yet."""
    with short_folder("ty-own-") as folder, trainyard_in(folder, **environment) as house:
        yield house


@contextmanager
def trainyard_in(folder: Path, **environment: str) -> Iterator[tuple[Up, Yard, OwnNodes]]:
    up = Up(new_home(folder), NODES="0", **environment)
    try:
        up.wait_until_ready()
        with Yard(up) as yard:
            nodes = OwnNodes(up, yard)
            try:
                yield up, yard, nodes
            finally:
                nodes.close()
    finally:
        up.close()


def in_contact(yard: Yard) -> set[str]:
    return {node["name"] for node in yard.get("/nodes")["items"] if node["is_in_contact"]}


def placed_on(yard: Yard, run: str) -> list[str]:
    """Return the nodes of the run's newest attempt, in the order of their ranks."""
    attempts: list[Document] = yard.get(f"/runs/{run}/attempts")["items"]
    return [place["node"] for place in attempts[-1]["placements"]]
