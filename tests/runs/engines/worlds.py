"""The other system of each engine, as small as the promises of ``test_engines.py`` need it. Programs are scripts here,
hosts are processes of this machine; whole runs on real systems are in ``tests/whole``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from runs.engines.kubernetes.api import Api
from runs.engines.kubernetes.engine import KubernetesSystem
from runs.engines.kubernetes.settings import KubernetesSettings
from runs.engines.machine_system import MachineSystem, Origin
from runs.engines.ray.engine import RaySystem
from runs.engines.ray.programs import RayAddress, RayProgram
from runs.engines.ray.settings import RaySettings
from runs.engines.refusals import SystemAway
from runs.engines.sagemaker.aws import Aws
from runs.engines.sagemaker.engine import SageMakerSystem, job_name_of
from runs.engines.sagemaker.settings import SageMakerSettings
from runs.engines.slurm.engine import Programs, SlurmSystem
from runs.engines.slurm.settings import SlurmSettings
from runs.engines.ssh.engine import Hosts, SshSystem
from runs.engines.ssh.settings import Host, SshSettings
from tests.kube.api_server import NAMESPACE, Kubernetes
from tests.runs.engines.local_engine import LocalSettings, LocalSystem
from trainyard.contract.base import JsonObject

MARK = "0123456789ab"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIcHHQfVXFFvOtDHcXNPTLfkOs4MjrHgqRaVYKxMKZXf"
# The least that a cluster of each engine needs.
SETTINGS: dict[str, JsonObject] = {
    "kubernetes": {"image": "a", "claim": "b"},
    "local": {"folder": "/jobs", "python": "/usr/bin/python3"},
    "ray": {"address": "head:6379", "folder": "/shared"},
    "sagemaker": {
        "region": "eu-central-1", "role": "arn:aws:iam::123456789012:role/training", "image": "trainyard:1",
        "instance_type": "ml.p4d.24xlarge", "subnets": ["subnet-0123456789abcdef0"],
        "security_groups": ["sg-0123456789abcdef0"], "file_system": "fs-0123456789abcdef0",
        "output": "s3://bucket/trainyard",
    },
    "slurm": {"folder": "/shared"},
    "ssh": {"hosts": [f"me@here {KEY}"], "folder": "/trainyard"},
}  # fmt: skip


def origin(mark: str) -> Origin:
    return Origin(mark, "far", "http://127.0.0.1:9")


def script(path: Path, text: str, shell: str = "/bin/sh") -> str:
    path.write_text(f"#!{shell}\n{text}\n")
    path.chmod(0o755)
    return str(path)


class World(ABC):
    """The system, and who else looks at it."""

    def __init__(self, folder: Path, fixture: Callable[[str], Any]) -> None:
        """Set it up in an empty folder. ``fixture`` returns a fixture of pytest by its name."""
        self.folder = folder

    @abstractmethod
    def system(self, mark: str = MARK) -> MachineSystem:
        """Return the system as a control that has just started sees it."""

    @abstractmethod
    def go_away(self) -> None: ...

    @abstractmethod
    def shown(self) -> str:
        """Return what others on the system may read of our jobs."""

    def close(self) -> None:
        return None


class LocalWorld(World):
    def __init__(self, folder: Path, fixture: Callable[[str], Any]) -> None:
        super().__init__(folder / "jobs", fixture)
        self.folder.mkdir()
        self.settings: JsonObject = {
            "folder": str(self.folder),
            "python": script(folder / "python", "while :; do sleep 0.1; done"),
        }

    def system(self, mark: str = MARK) -> LocalSystem:
        return LocalSystem(LocalSettings.of(self.settings), origin(mark))

    def go_away(self) -> None:
        self.close()
        self.folder.rename(self.folder.with_name("gone"))

    def shown(self) -> str:
        return " ".join(
            word for file in self.folder.iterdir() for word in psutil.Process(int(file.read_text())).cmdline()
        )

    def close(self) -> None:
        for file in self.folder.glob("*-*"):
            self.system().cancel(file.name)


class KubernetesWorld(World):
    def __init__(self, folder: Path, fixture: Callable[[str], Any]) -> None:
        super().__init__(folder, fixture)
        self.kubernetes = Kubernetes(folder)
        self.kubernetes.faults.unschedulable = "0/1 nodes are available: 1 Insufficient cpu. preemption: none"

    def system(self, mark: str = MARK) -> KubernetesSystem:
        document = {**SETTINGS["kubernetes"], "namespace": NAMESPACE, "kubeconfig": str(self.kubernetes.kubeconfig)}
        settings = KubernetesSettings.of(document)
        return KubernetesSystem(settings, origin(mark), Api(settings, self.folder / "own"))

    def go_away(self) -> None:
        self.kubernetes.faults.is_away = True

    def shown(self) -> str:
        objects = self.kubernetes.objects
        return json.dumps([objects.find(kind) for kind in ("jobs", "pods", "services")], default=str)

    def close(self) -> None:
        self.kubernetes.stop()


SBATCH = r"""for word; do case $word in --comment=*) about=${word#*=};; esac; done
number=$(($(ls jobs | wc -l) + 17)); echo "$@" >> words; cat > /dev/null; echo $number
echo "{\"job_id\": $number, \"comment\": \"$about\", \"job_state\": \"PENDING\"}" > jobs/$number"""
SCANCEL = "rm jobs/$1 2>/dev/null || { echo 'scancel: error: Kill job error: Invalid job id specified' >&2; exit 1; }"
SQUEUE = """echo "{\\"jobs\\": [$(cat jobs/* 2>/dev/null | paste -sd,)]}\""""


class SlurmWorld(World):
    def __init__(self, folder: Path, fixture: Callable[[str], Any]) -> None:
        super().__init__(folder, fixture)
        (folder / "jobs").mkdir()
        self.path = os.environ["PATH"]
        os.environ["PATH"] = f"{folder}:{self.path}"
        for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL), ("squeue", SQUEUE), ("sacct", "exit 1")):
            script(folder / name, f"cd {folder}\n{text}")

    def system(self, mark: str = MARK) -> SlurmSystem:
        return SlurmSystem(SlurmSettings.of(SETTINGS["slurm"]), origin(mark), Programs())

    def go_away(self) -> None:
        for name in ("sbatch", "scancel", "squeue", "sacct"):
            script(self.folder / name, f"echo '{name}: error: Unable to contact slurm controller' >&2; exit 1")

    def shown(self) -> str:
        return (self.folder / "words").read_text()

    def close(self) -> None:
        os.environ["PATH"] = self.path


RAY = """import json, pathlib, sys
folder = pathlib.Path(__file__).parent
print('{"version": "2.60.0"}', flush=True)
for line in sys.stdin:
    call = json.loads(line)
    job = folder / "jobs" / (call["job"] or "-")
    if (folder / "away").exists():
        print('{"problem": "Connection refused", "kind": "away"}', flush=True)
        continue
    if call["verb"] == "submit":
        job.write_text(json.dumps(call["request"]["words"]))
    if call["verb"] == "cancel":
        job.unlink(missing_ok=True)
    names = [one.name for one in (folder / "jobs").iterdir()]
    is_ours = lambda name: name.startswith(call["prefix"]) if call["verb"] == "survey" else name == call["job"]
    jobs = [{"job": one, "state": "running", "hosts": ["h"]} for one in names if is_ours(one)]
    print(json.dumps({"jobs": jobs, "machines": []}), flush=True)"""


class RayWorld(World):
    def __init__(self, folder: Path, fixture: Callable[[str], Any]) -> None:
        super().__init__(folder, fixture)
        (folder / "jobs").mkdir()
        self.programs: list[RayProgram] = []
        self.python = script(folder / "python", RAY, sys.executable)

    def system(self, mark: str = MARK) -> RaySystem:
        self.programs.append(RayProgram(RayAddress("head:6379", self.python, "")))
        return RaySystem(RaySettings.of(SETTINGS["ray"]), origin(mark), self.programs[-1])

    def go_away(self) -> None:
        (self.folder / "away").touch()

    def shown(self) -> str:
        return " ".join(one.read_text() for one in (self.folder / "jobs").iterdir())

    def close(self) -> None:
        for program in self.programs:
            program.end()


class Here(Hosts):
    """A host that is this machine: the program that SSH would start there is started here."""

    world: SshWorld

    def run(self, host: Host, words: Sequence[str], text: str = "", *, limit_s: float = 20.0) -> str:
        if self.world.is_away:
            raise SystemAway(f"{host.label} is not reached: gone.")
        done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=60, check=True, cwd="/")
        return done.stdout


class SshWorld(World):
    def __init__(self, folder: Path, fixture: Callable[[str], Any]) -> None:
        super().__init__(folder, fixture)
        self.is_away = False
        # The program that keeps nodes is the real one; a node is a script that waits.
        keeper = f'case $3 in workers.host_jobs*) exec {sys.executable} "$@";; esac'
        python = script(folder / "python", f'echo "$@" >> {folder}/words\n{keeper}\nexec sleep 60')
        self.settings: JsonObject = {**SETTINGS["ssh"], "folder": str(folder), "python": python}

    def system(self, mark: str = MARK) -> SshSystem:
        settings = SshSettings.of(self.settings)
        hosts = Here(settings.all_hosts, Path(), settings.interpreter, settings.folder, mark)
        hosts.world = self
        return SshSystem(settings, origin(mark), hosts)

    def go_away(self) -> None:
        self.is_away = True

    def shown(self) -> str:
        return (self.folder / "words").read_text()

    def close(self) -> None:
        self.is_away = False
        for system in (self.system(), self.system("f" * 12)):
            for job in system.jobs():
                system.cancel(job.id)


class SageMakerWorld(World):
    def __init__(self, folder: Path, fixture: Callable[[str], Any]) -> None:
        super().__init__(folder, fixture)
        self.account = fixture("account")
        self.endpoint = self.account.url
        self.account.faults(waits=["Pending", "Insufficient capacity"])

    def system(self, mark: str = MARK) -> SageMakerSystem:
        from tests.aws.account import SECRET_KEY

        settings = SageMakerSettings.of(self.account.settings(endpoint=self.endpoint))
        return SageMakerSystem(settings, origin(mark), Aws(settings, SECRET_KEY))

    def go_away(self) -> None:
        self.endpoint = "http://127.0.0.1:9"

    def shown(self) -> str:
        name = job_name_of(MARK, "a1")
        return json.dumps(self.account.client("sagemaker").describe_training_job(TrainingJobName=name), default=str)


WORLDS: dict[str, type[World]] = {
    "kubernetes": KubernetesWorld,
    "local": LocalWorld,
    "ray": RayWorld,
    "sagemaker": SageMakerWorld,
    "slurm": SlurmWorld,
    "ssh": SshWorld,
}
