"""A real Ray of several machines on this one: a head without resources and a few machines, ended by process id."""

from __future__ import annotations

import contextlib
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
# What people do with Ray's own library: a process that runs lines of code and answers what each calls ``answer`` with.
# Ray's library prints too, so an answer begins with a sign.
CONSOLE = """
import json, sys, ray
ray.init(address={address!r}, namespace='trainyard', log_to_driver=False)
for line in sys.stdin:
    found = [None]
    exec(json.loads(line), {{'ray': ray, 'answer': lambda value: found.append(value)}})
    print('=>' + json.dumps(found[-1]), flush=True)
"""


class RayCluster:
    """``machines`` are the processes of ``ray start --block``, by name: ``head`` and r1, r2 and so on."""

    def __init__(self, folder: Path, *, token: str = "", num_cpus: int = 2) -> None:
        self.folder = folder
        self.shared = folder / "shared"
        self.shared.mkdir(exist_ok=True)
        self.machines: dict[str, subprocess.Popen[bytes]] = {}
        self._console: subprocess.Popen[str] | None = None
        self._draining: set[str] = set()
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
        names = [f"r{number}" for number in range(1, num_machines + 1)]
        for name in names:
            self._start_machine(name)
        for name in names:
            self._wait_until_up(name)

    def start_head(self) -> None:
        words = ["--head", f"--port={self._port}", "--num-cpus=0", "--include-dashboard=false"]
        words += [f"--ray-client-server-port={self.client_port}", f"--temp-dir={self.folder}/s"]
        self._begin("head", *words, "--node-ip-address=127.0.0.1")
        self._wait_until_up("head")

    def start_machine(self, name: str) -> None:
        self._start_machine(name)
        self._wait_until_up(name)

    def _start_machine(self, name: str) -> None:
        words = [f"--address={self.address}", f"--num-cpus={self._num_cpus}", "--node-ip-address=127.0.0.1"]
        self._begin(name, *words, f"--node-name={name}", f'--resources={{"{name}": 1}}')

    def _wait_until_up(self, name: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while "Ray runtime started" not in (self.folder / f"{name}.out").read_text(errors="replace"):
            assert time.monotonic() < deadline, self.logs()
            if self.machines[name].poll() is not None:  # Ray gives a machine 30 s, which a busy one may need more of
                assert name != "head", self.logs()
                self._start_machine(name)
            time.sleep(0.2)

    def restore(self, num_machines: int) -> None:
        """Have exactly so many machines again, none of them on its way out."""
        names = [f"r{number}" for number in range(1, num_machines + 1)]
        has_head = self._lives("head")
        for name in list(self.machines):
            if not has_head or name in self._draining or name not in ("head", *names) or not self._lives(name):
                self.stop_machine(name)
        self._draining.clear()
        if not has_head:
            self.start(num_machines)
        for name in names:
            if name not in self.machines:
                self.start_machine(name)

    def _lives(self, name: str) -> bool:
        return name in self.machines and self.machines[name].poll() is None

    def kill(self, name: str) -> None:
        """SIGKILL of all of Ray's own programs of one machine, not of what runs in its workers: these see it."""
        process = self.machines.pop(name)
        for child in psutil.Process(process.pid).children(recursive=True):
            if child.name() in ("raylet", "gcs_server"):
                child.kill()
        process.kill()
        process.wait()

    def drain(self, name: str, seconds: int) -> None:
        """Announce that the machine is taken back, as a cloud's notice does through Ray's autoscaler."""
        code = f"answer([node['NodeID'] for node in ray.nodes() if node['Alive'] and {name!r} in node['Resources']])"
        (node,) = self.call(code)
        words = [f"--address={self.address}", f"--node-id={node}", "--reason=DRAIN_NODE_REASON_PREEMPTION"]
        words += ["--reason-message=a test", f"--deadline-remaining-seconds={seconds}"]
        program = [sys.executable, "-P", "-c", PROGRAM, "drain-node", *words]
        done = subprocess.run(program, env=self.environment, cwd="/", capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        self._draining.add(name)

    def stop_machine(self, name: str) -> None:
        process = self.machines.pop(name)
        family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for one in family:
            if one.is_running():
                one.kill()

    def call(self, code: str) -> Any:
        """Run code with Ray's library, which is connected, and return what it calls ``answer`` with, if at all."""
        for _ in range(2):  # Ray ends a process whose own machine has died
            if self._console is None:
                self._console = subprocess.Popen(
                    tethered([sys.executable, "-P", "-c", CONSOLE.format(address=self.address)]), env=self.environment,
                    cwd="/", text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                )  # fmt: skip
            assert self._console.stdin is not None and self._console.stdout is not None
            with contextlib.suppress(OSError):
                self._console.stdin.write(json.dumps(code) + "\n")
                self._console.stdin.flush()
                for line in self._console.stdout:
                    if line.startswith("=>"):
                        return json.loads(line.removeprefix("=>"))
            self._close_console()
        raise AssertionError(f"Ray did not run {code!r}")

    def _close_console(self) -> None:
        console, self._console = self._console, None
        if console is not None:
            console.kill()
            console.communicate()

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

    def stop(self) -> None:
        self._close_console()
        for name in reversed(list(self.machines)):
            self.stop_machine(name)

    def logs(self) -> str:
        files = sorted(self.folder.glob("*.out"))
        return "\n".join(f"== {one.name}\n{one.read_text(errors='replace')[-3000:]}" for one in files)

    def _begin(self, name: str, *words: str) -> None:
        program = [sys.executable, "-P", "-c", PROGRAM, "start", *words, *COMMON]
        with (self.folder / f"{name}.out").open("wb") as output:
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
