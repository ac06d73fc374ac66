"""A real Ray of several machines on this one: a head without resources and a few machines, ended by process id."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from dashboard.up.parent_death import tethered
from tests.servers import free_port, short_folder

PATIENCE_S = 240.0
COMMON = ("--object-store-memory=100000000", "--disable-usage-stats", "--include-log-monitor=false", "--block")
PROGRAM = "import sys; from ray.scripts.scripts import main; sys.argv[0] = 'ray'; sys.exit(main())"
# What people do with Ray's own library, in a process that Ray may end.
# Ray's library prints too: an answer begins with a sign.
CALL = (
    "import json, ray; answer = lambda value: print('=>' + json.dumps(value)); "
    "ray.init(address={address!r}, namespace='trainyard', log_to_driver=False); {code}"
)


class RayCluster:
    """``machines`` are the processes of ``ray start --block``, by name: ``head`` and r1, r2 and so on."""

    def __init__(self, folder: Path, *, token: str = "", num_cpus: int = 2) -> None:
        self.folder = folder
        self.shared = folder / "shared"
        self.shared.mkdir(exist_ok=True)
        self.machines: dict[str, subprocess.Popen[bytes]] = {}
        self._token = token
        self._num_cpus = num_cpus
        self._port = free_port()
        self.client_port = free_port()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        names = ("PATH", "HOME", "LANG", "TMPDIR")
        kept = {name: os.environ[name] for name in names if name in os.environ}
        mode = (
            {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self._token} if self._token else {"RAY_AUTH_MODE": "disabled"}
        )
        return {**kept, **mode, "RAY_USAGE_STATS_ENABLED": "0", "PYTHONWARNINGS": "ignore"}

    def start(self, num_machines: int = 2) -> None:
        self.start_head()
        for number in range(1, num_machines + 1):
            self.start_machine(f"r{number}")
        self.wait_for_machines(num_machines + 1)

    def start_head(self) -> None:
        words = ["--head", f"--port={self._port}", "--num-cpus=0", "--include-dashboard=false"]
        words += [f"--ray-client-server-port={self.client_port}", f"--temp-dir={self.folder}/s"]
        self._begin("head", *words, "--node-ip-address=127.0.0.1")
        deadline = time.monotonic() + PATIENCE_S
        while not self._is_up():
            assert time.monotonic() < deadline, self.logs()
            time.sleep(0.2)

    def start_machine(self, name: str) -> None:
        words = [f"--address={self.address}", f"--num-cpus={self._num_cpus}", "--node-ip-address=127.0.0.1"]
        self._begin(name, *words, f"--node-name={name}", f'--resources={{"{name}": 1}}')

    def kill(self, name: str) -> None:
        """SIGKILL of all of Ray's own programs of one machine, not of what runs in its workers: these see it."""
        process = self.machines.pop(name)
        for child in psutil.Process(process.pid).children(recursive=True):
            if child.name() in ("raylet", "gcs_server"):
                child.kill()
        process.kill()
        process.wait()

    def call(self, code: str) -> Any:
        """Run code with Ray's library, which is connected, and return what it calls ``answer`` with, if at all."""
        done = subprocess.run(
            [sys.executable, "-P", "-c", CALL.format(address=self.address, code=code)],
            env=self.environment, cwd="/", capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        lines = [line for line in done.stdout.splitlines() if line.startswith("=>")]
        return json.loads(lines[-1].removeprefix("=>")) if lines else None

    def num_alive(self) -> int:
        return int(self.call("answer(sum(node['Alive'] for node in ray.nodes()))"))

    def actors(self) -> list[str]:
        """Return the names of our actors that live."""
        names = self.call("answer(sorted(ray.util.list_named_actors()))")
        return [str(name) for name in names]

    def groups(self) -> list[str]:
        """Return the names of placement groups that hold or ask for machines."""
        code = (
            "from ray.util.placement_group import placement_group_table as table; "
            "answer([one['name'] for one in table().values() if one['state'] != 'REMOVED'])"
        )
        return [str(name) for name in self.call(code)]

    def wait_for_machines(self, number: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while self.num_alive() != number:
            assert time.monotonic() < deadline, self.logs()
            time.sleep(0.5)

    def stop(self) -> None:
        for name in reversed(list(self.machines)):
            process = self.machines.pop(name)
            family = psutil.Process(process.pid).children(recursive=True)
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for one in family:
                if one.is_running():
                    one.kill()

    def logs(self) -> str:
        files = sorted(self.folder.glob("*.out"))
        return "\n".join(f"== {one.name}\n{one.read_text(errors='replace')[-3000:]}" for one in files)

    def _is_up(self) -> bool:
        assert self.machines["head"].poll() is None, self.logs()
        return "Ray runtime started" in (self.folder / "head.out").read_text(errors="replace")

    def _begin(self, name: str, *words: str) -> None:
        program = [sys.executable, "-P", "-c", PROGRAM, "start", *words, *COMMON]
        with (self.folder / f"{name}.out").open("ab") as output:
            self.machines[name] = subprocess.Popen(
                tethered(program), env=self.environment, cwd="/", stdout=output, stderr=output, stdin=subprocess.DEVNULL
            )


@contextmanager
def running_ray(num_machines: int = 2, *, token: str = "") -> Iterator[RayCluster]:
    """Start one, or skip the test where the library is not installed."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed here: `make ray` installs it")
    with short_folder("ty-ray-") as folder:
        ray = RayCluster(folder, token=token)
        try:
            ray.start(num_machines)
            yield ray
        finally:
            ray.stop()
