"""The smallest engine: its system is this machine, and a job is a process. It shows what a new engine has to say."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from runs.engines.allocating import AllocatingEngine
from runs.engines.cluster_settings import checks
from runs.engines.cluster_settings.settings import Guarded, Offer, Settings, field
from runs.engines.findings import Finding, Probe
from runs.engines.machine_system import (
    JobState,
    MachineRequest,
    Origin,
    SystemJob,
    node_variables,
    node_words,
    origin_of,
)
from runs.engines.refusals import SystemAway
from runs.models import Cluster


@dataclass(frozen=True, kw_only=True)
class LocalSettings(Settings):
    folder: str = field("Folder", "Jobs keep their files there.", check=checks.path, is_needed=True)
    machines: int = field("Machines", "How many all runs may have at once.", default=2, check=checks.number(1, 8))
    python: str = field("Python", "The interpreter that has Trainyard.", check=checks.path, is_needed=True)

    def offers(self) -> list[Offer]:
        return [Offer(self.machines, 1)]

    def guarded(self) -> Guarded:
        return Guarded({"python": self.python})  # the server runs it


class LocalEngine(AllocatingEngine):
    label = "This machine"
    about = "It starts a process for each run."
    settings_type = LocalSettings
    access = ("folder", "Make the folder.")  # there is nothing to let us in

    def system(self, cluster: Cluster) -> LocalSystem:
        return LocalSystem(LocalSettings.of(cluster.settings), origin_of(cluster))


class LocalSystem:
    """A job is a file, named by cluster and attempt, that holds the id of its process."""

    def __init__(self, settings: LocalSettings, origin: Origin) -> None:
        self._settings, self._origin = settings, origin

    def steps(self, probe: Probe) -> Iterator[Finding]:
        is_there = Path(self._settings.folder).is_dir()
        sentence = f"The folder {self._settings.folder} is {'' if is_there else 'not '}there."
        yield Finding("folder", is_there, sentence, "" if is_there else "Make it.")

    def jobs(self) -> list[SystemJob]:
        return [self._seen(file) for file in sorted(self._folder().glob(f"{self._origin.mark}-*"))]

    def find(self, job: str) -> SystemJob | None:
        file = self._folder() / job
        return self._seen(file) if file.exists() else None

    def submit(self, request: MachineRequest) -> str:
        file = self._folder() / f"{self._origin.mark}-{request.attempt}"
        if not file.exists():
            server, home = self._origin.server, str(file.parent)
            words = node_words(self._settings.python, request, server=server, home=home)
            variables = node_variables(request.tokens, checkpoints=str(file.parent))
            shell = ["/bin/sh", "-c", '"$@" > /dev/null & echo $!', "sh", *words]
            file.write_text(subprocess.run(shell, env=variables, stdout=subprocess.PIPE, text=True, check=True).stdout)
        return file.name

    def cancel(self, job: str) -> None:
        file = self._folder() / job
        if file.exists() and _is_alive(file):
            os.kill(int(file.read_text()), signal.SIGTERM)
        file.unlink(missing_ok=True)

    def _seen(self, file: Path) -> SystemJob:
        attempt = file.name.removeprefix(f"{self._origin.mark}-")
        return SystemJob(file.name, attempt, JobState.RUNNING if _is_alive(file) else JobState.OVER)

    def _folder(self) -> Path:
        folder = Path(self._settings.folder)
        if not folder.is_dir():
            raise SystemAway(f"The folder {folder} is not there.")
        return folder


def _is_alive(file: Path) -> bool:
    try:
        return psutil.Process(int(file.read_text())).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
