"""A real Slurm of several machines on this one: its own munge, ports and folders, ended by process id."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dashboard.up.parent_death import tethered
from tests.servers import free_port, short_folder

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "srun", "scancel", "scontrol", "sinfo")
PATIENCE_S = 60.0
GPUS = 2  # of each machine; an ordinary file stands for one

CONF = """
ClusterName=trainyard
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=0
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
ReturnToService=1
KillWait=5
EnforcePartLimits=ALL
GresTypes=gpu
MinJobAge=300
InactiveLimit=0
SlurmdTimeout=10
OverTimeLimit=0
MailProg=/bin/true
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=CANCEL GraceTime=10
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
PartitionName=closed Nodes=ALL MaxTime=INFINITE State=UP AllowAccounts=physics
PartitionName=short Nodes=ALL MaxTime=2 State=UP
"""


def missing_program() -> str:
    """Return the first of Slurm's programs that this machine lacks, or nothing."""
    return next((name for name in PROGRAMS if find(name) is None), "")


def find(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


class Slurm:
    """``programs`` are what it runs, by name: munged, slurmctld, and a slurmd for each machine of ``cpus``."""

    def __init__(self, folder: Path, num_machines: int = 2, cpus: int = 4) -> None:
        self.folder = folder
        self.cpus = cpus
        self.names = [f"c{number}" for number in range(1, num_machines + 1)]
        self.conf = folder / "slurm.conf"
        self.shared = folder / "shared"
        self.programs: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        self.shared.mkdir()
        (self.folder / "state").mkdir()
        (self.folder / "munge.key").write_bytes(secrets.token_bytes(1024))
        (self.folder / "munge.key").chmod(0o600)
        host = socket.gethostname().split(".")[0]
        nodes = "\n".join(
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()} CPUs={self.cpus}"
            f" RealMemory=1000 Gres=gpu:a100:{GPUS}"
            for name in self.names
        )
        for number in range(GPUS):
            (self.folder / f"gpu{number}").touch()
        (self.folder / "gres.conf").write_text(
            f"NodeName={','.join(self.names)} Name=gpu Type=a100 File={self.folder}/gpu[0-{GPUS - 1}]\n"
        )
        self.conf.write_text(CONF.format(folder=self.folder, host=host, port=free_port(), nodes=nodes))
        self._begin(
            "munged", "--foreground", "--force", f"--socket={self.folder}/munge.sock",
            f"--key-file={self.folder}/munge.key", f"--pid-file={self.folder}/munged.pid",
            f"--log-file={self.folder}/munged.log", f"--seed-file={self.folder}/munged.seed",
        )  # fmt: skip
        self._wait_until((self.folder / "munge.sock").exists, "munged made no socket")
        self.start_controller()
        for name in self.names:
            self.start_machine(name)
        self._wait_until(lambda: self.call("sinfo", "-h", "-o", "%T").split() == ["idle"], "the machines are not idle")

    def start_controller(self) -> None:
        self._begin("slurmctld", "-D", "-f", str(self.conf))
        self._wait_until(lambda: "UP" in self.call("scontrol", "ping"), "slurmctld is not up")

    def start_machine(self, name: str) -> None:
        self._begin("slurmd", "-D", "-f", str(self.conf), "-N", name, as_name=f"slurmd {name}")

    def stop_program(self, name: str, *, kill: bool = False) -> None:
        process = self.programs.pop(name)
        process.kill() if kill else process.terminate()
        try:
            process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:  # it waits for processes of a job
            process.kill()
            process.wait()

    def call(self, name: str, *words: str) -> str:
        """Run one of Slurm's programs and return its output, whether it likes it or not."""
        environment = {**os.environ, "SLURM_CONF": str(self.conf)}
        done = subprocess.run(
            [find(name) or name, *words], env=environment, capture_output=True, text=True, timeout=30, check=False
        )
        return done.stdout

    def queue(self) -> list[str]:
        """Return the ids of jobs that are pending or have processes."""
        return self.call("squeue", "-h", "-o", "%i").split()

    def job_ids(self, attempt: str) -> list[str]:
        """Return the ids of the attempt's jobs that are pending or have processes."""
        lines = [line.split() for line in self.call("squeue", "-h", "-o", "%i %j").splitlines()]
        return [job for job, name in lines if name.endswith(attempt)]

    def machines_of(self, job: str) -> list[str]:
        names = self.call("squeue", "-h", "-j", job, "-o", "%N").strip()
        return self.call("scontrol", "show", "hostnames", names).split()

    def stop(self) -> None:
        if "slurmctld" in self.programs:
            self.call("scancel", "--me")
            deadline = time.monotonic() + PATIENCE_S
            while self.queue() and time.monotonic() < deadline:
                time.sleep(0.2)
        for name in reversed(list(self.programs)):
            self.stop_program(name)

    def _begin(self, name: str, *words: str, as_name: str = "") -> None:
        program = find(name)
        assert program is not None
        with (self.folder / f"{as_name or name}.out".replace(" ", ".")).open("ab") as output:
            self.programs[as_name or name] = subprocess.Popen(
                tethered([program, *words]), stdout=output, stderr=output, stdin=subprocess.DEVNULL
            )

    def _wait_until(self, is_true: object, words: str) -> None:
        assert callable(is_true)
        deadline = time.monotonic() + PATIENCE_S
        while not is_true():
            assert time.monotonic() < deadline, f"{words}: {self._logs()}"
            time.sleep(0.1)

    def _logs(self) -> str:
        files = sorted(self.folder.glob("*.log")) + sorted(self.folder.glob("*.out"))
        return "\n".join(f"== {one.name}\n{one.read_text(errors='replace')[-2000:]}" for one in files)


@contextmanager
def running_slurm(num_machines: int = 2, cpus: int = 4) -> Iterator[Slurm]:
    """Start one, or skip the test where this machine has no Slurm, or where we are not root."""
    if lacking := missing_program():
        pytest.skip(f"Slurm's {lacking} is not on this machine (Debian: apt-get install slurm-wlm munge)")
    if os.geteuid() != 0:
        pytest.skip("slurmd needs root")
    with short_folder("ty-slurm-") as folder:
        folder.chmod(0o755)
        slurm = Slurm(folder, num_machines, cpus)
        try:
            slurm.start()
            yield slurm
        finally:
            slurm.stop()
