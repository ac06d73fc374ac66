"""Machines of a training job as processes of this machine: what SageMaker does with a container, as far as our nodes
meet it. Each is process 1 of a PID namespace, so what is left of it dies with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from dashboard.up.parent_death import tethered

KEYS = {"AWS_ACCESS_KEY_ID": "of-the-role", "AWS_SECRET_ACCESS_KEY": "of-the-role"}


class Machines:
    """The processes of one job."""

    def __init__(self, job: Any, folder: Path) -> None:
        self.started_at = time.time()
        self.asked_at: float | None = None  # when they were asked to end
        self._roots = []
        self._processes = []
        count = job.resource_config["InstanceCount"]
        hosts = [f"algo-{number + 1}" for number in range(count)]
        shared = (
            folder / "file-systems" / job.input_data_config[0]["DataSource"]["FileSystemDataSource"]["FileSystemId"]
        )
        shared.mkdir(parents=True, exist_ok=True)
        for host in hosts:
            root = folder / "jobs" / job.training_job_name / host
            for name in ("input/config", "input/data", "output"):
                (root / name).mkdir(parents=True)
            (root / "input/data" / job.input_data_config[0]["ChannelName"]).symlink_to(shared)
            (root / "input/config/resourceconfig.json").write_text(json.dumps({"current_host": host, "hosts": hosts}))
            self._roots.append(root)
            self._processes.append(self._process(job, root))

    def end(self) -> None:
        """SIGTERM to process 1 of each."""
        self.asked_at = time.time()
        for process in self._processes:
            try:
                for child in psutil.Process(process.pid).children():
                    child.send_signal(signal.SIGTERM)
            except psutil.NoSuchProcess:
                continue

    def kill(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()  # which kills the namespace
                process.wait()

    def are_over(self) -> bool:
        return all(process.poll() is not None for process in self._processes)

    def failure(self) -> str | None:
        """Return the failure reason of a machine whose program ended badly."""
        for process, root in zip(self._processes, self._roots, strict=True):
            if code := process.poll():
                path = root / "output" / "failure"
                words = path.read_text() if path.exists() else ""
                return f"AlgorithmError: {words}, exit code: {128 - code if code < 0 else code}"
        return None

    def _process(self, job: Any, root: Path) -> subprocess.Popen[bytes]:
        about = job.algorithm_specification
        words = [*about["ContainerEntrypoint"], *about["ContainerArguments"]]
        words = [sys.executable if words[0] == "python3" else words[0], *words[1:]]
        if "--home" in words:  # the container's own disk
            words[words.index("--home") + 1] = str(root / "home")
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        with (root / "log").open("wb") as output:
            return subprocess.Popen(
                tethered(["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", *words]),
                env={**kept, **KEYS, **job.environment, "SAGEMAKER_BASE_DIR": str(root)},
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip
