"""Pods as processes of this machine: a kubelet's work, with namespaces of Linux in place of containers.

The pod's command runs as process 1 of a PID namespace, with the volumes mounted where the pod wants them; what is left
of it dies with it. There is no image: its interpreter is the one that runs the tests, and its files are this machine's.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from dashboard.up.parent_death import tethered
from tests.kube.objects import Object

INDEX = "batch.kubernetes.io/job-completion-index"
VARIABLE = re.compile(r"\$\(([A-Z_]+)\)")


class MissingSecret(Exception):
    """A volume's Secret is not there yet."""


class PodProcess:
    """The process of one pod's container."""

    def __init__(self, pod: Object, secrets: dict[str, dict[str, str]], folder: Path, shared: Path) -> None:
        """``folder`` is for what goes with the pod, ``shared`` for claims."""
        self.folder = folder
        self._pod, self._secrets, self._shared = pod, secrets, shared
        self._container = pod["spec"]["containers"][0]
        self.variables = {one["name"]: self._value(one) for one in self._container.get("env", [])}
        mounts = [(self._source(mount), mount["mountPath"]) for mount in self._container.get("volumeMounts", [])]
        folder.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                tethered(["unshare", "--pid", "--fork", "--mount", "--mount-proc", "--uts", "--kill-child",
                          "sh", "-ec", self._script(mounts), "pod", *self._words()]),
                env=self._environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def end(self, number: int = signal.SIGTERM) -> None:
        """Send the signal to process 1 of the pod."""
        try:
            for child in psutil.Process(self.process.pid).children():
                child.send_signal(number)
        except psutil.NoSuchProcess:
            return

    def kill(self) -> None:
        self.end(signal.SIGKILL)

    def exit_code(self) -> int | None:
        """Return how it ended, as a shell has it; None while it goes on."""
        code = self.process.poll()
        return 128 - code if code is not None and code < 0 else code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()  # which kills the namespace
            self.process.wait()
        for _ in range(20):  # a process of it may be writing its last
            shutil.rmtree(self.folder, ignore_errors=True)
            if not self.folder.exists():
                return
            time.sleep(0.05)

    def _value(self, variable: Object) -> str:
        if "value" in variable:
            return str(variable["value"])
        assert variable["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.annotations['{INDEX}']"
        return str(self._pod["metadata"]["annotations"][INDEX])

    def _expanded(self, text: str) -> str:
        return VARIABLE.sub(lambda found: self.variables.get(found[1], found[0]), text)

    def _source(self, mount: Object) -> str:
        """Return what is mounted: a path, or empty for memory."""
        volume = next(one for one in self._pod["spec"]["volumes"] if one["name"] == mount["name"])
        path = self.folder / "volumes" / mount["name"]
        if "secret" in volume:
            return str(self._secret(volume["secret"]["secretName"], path) / self._expanded(mount["subPathExpr"]))
        if "persistentVolumeClaim" in volume:
            path = self._shared / volume["persistentVolumeClaim"]["claimName"]
        elif "hostPath" in volume:
            return str(volume["hostPath"]["path"])
        elif volume["emptyDir"].get("medium") == "Memory":
            return ""
        path.mkdir(parents=True, exist_ok=True)
        return str(path)

    def _secret(self, name: str, path: Path) -> Path:
        if name not in self._secrets:
            raise MissingSecret(name)
        path.mkdir(parents=True, exist_ok=True)
        for key, value in self._secrets[name].items():
            (path / key).write_text(value)
        return path

    def _script(self, mounts: list[tuple[str, str]]) -> str:
        """Return what is done in the new namespaces before the command. Nothing of it is seen outside."""
        lines = ["mount --make-rprivate /", f"hostname {shlex.quote(self._pod['metadata']['name'])}"]
        lines += [f"mount -t tmpfs tmpfs {place}" for place in ("/run", "/var/lib")]
        for source, target in mounts:
            to = shlex.quote(target)
            if not source:
                lines.append(f"mkdir -p {to}; mount -t tmpfs tmpfs {to}")
            elif Path(source).is_file():
                lines.append(f"mkdir -p $(dirname {to}); touch {to}; mount --bind {shlex.quote(source)} {to}")
            else:
                lines.append(f"mkdir -p {to}; mount --bind {shlex.quote(source)} {to}")
        return "\n".join([*lines, 'exec "$@"'])

    def _words(self) -> list[str]:
        words = [self._expanded(word) for word in (*self._container["command"], *self._container.get("args", []))]
        return [sys.executable if words[0] == "python3" else words[0], *words[1:]]

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        return {**kept, "HOSTNAME": self._pod["metadata"]["name"], **self.variables}
