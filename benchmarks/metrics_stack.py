"""The parts of a Trainyard that keep metrics, without `up`: a home, both databases, a Valkey, nodes and runs.

For benchmarks that feed the stream or the store themselves. Django is set up in the benchmark's own process, once:
``metrics_stack()`` may be entered once in a process.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import redis

from benchmarks.stack import valkey

if TYPE_CHECKING:
    from django.test import Client

    from runs.models import Attempt, Node, Run, User

ROOT = Path(__file__).resolve().parents[1]
READY_S = 60.0
OURS = ("TRAINYARD_", "DATABASE_URL", "REDIS_URL", "SECRET_KEY", "HOST", "PORT", "PUBLIC_URL", "ALLOWED_HOSTS")


@dataclass
class MetricsStack:
    home: Path
    socket: Path
    redis: redis.Redis
    owner: User
    node: Node
    token: str

    def make_run(self, name: str = "bench") -> Run:
        from runs.models import Cluster, Project, Run
        from runs.values.status import Status

        project, cluster = Project.objects.get(name="default"), Cluster.objects.get(name="local")
        spec = {"name": name, "resources": {"nodes": 1}, "task": {"recipe": "language-model"}}
        return Run.objects.create(
            project=project, cluster=cluster, name=name, spec=spec, created_by=self.owner, status=Status.RUNNING
        )

    def make_attempt(self, run: Run) -> Attempt:
        """Return an attempt of ``run`` that is placed on the node, which may then send its frames."""
        from runs.models import Attempt, Placement
        from runs.values.status import Phase

        fence = run.next_fence()
        attempt = Attempt.objects.create(run=run, number=fence, fence=fence, world_size=1)
        Placement.objects.create(
            attempt=attempt, node=self.node, node_rank=0, first_rank=0, num_ranks=1, phase=Phase.RUNNING
        )
        return attempt

    def client(self) -> Client:
        """Return Django's test client, signed in by a token: requests go through the whole of the site, in-process."""
        from django.test import Client

        return Client(headers={"authorization": f"Bearer {self.token}", "host": "127.0.0.1"})

    def num_points(self, run_ids: list[str]) -> int:
        """Return how many points of these runs are committed."""
        from runs.records.metrics.models import Telemetry

        return sum(Telemetry.objects.filter(run_id__in=run_ids).values_list("num_points", flat=True))

    @contextmanager
    def ingest(self) -> Iterator[psutil.Process]:
        """Run ``manage.py ingest`` and end it at the end."""
        with (self.home / "ingest.log").open("ab") as log:
            words = [sys.executable, "manage.py", "ingest"]
            process = subprocess.Popen(
                words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
            )
        try:
            wait_for_line(process, "is ready")
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(timeout=60)
            assert process.stdout is not None
            process.stdout.close()


@contextmanager
def broker() -> Iterator[None]:
    """A Valkey where the settings, which are read already, look for it: in the home."""
    from dashboard.home import socket_path

    folder = socket_path(Path(os.environ["TRAINYARD_HOME"]).resolve()).parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with valkey(folder, durable=False):
        yield


@contextmanager
def metrics_stack() -> Iterator[MetricsStack]:
    for name in list(os.environ):
        if name.startswith(OURS):
            del os.environ[name]
    with tempfile.TemporaryDirectory(prefix="ty-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        home, socket_folder = Path(folder) / "home", Path(folder) / "valkey"
        (home / "static").mkdir(parents=True)  # where whitenoise looks
        socket_folder.mkdir(mode=0o700)
        with valkey(socket_folder) as client:
            os.environ["TRAINYARD_HOME"] = str(home)
            os.environ["REDIS_URL"] = f"unix://{socket_folder}/valkey.sock"
            yield _filled(home, socket_folder / "valkey.sock", client)


def _filled(home: Path, socket: Path, client: redis.Redis) -> MetricsStack:
    from dashboard.up.database import open_database, owner, set_up_django

    set_up_django()
    open_database()
    from runs.actions import create_token
    from runs.models import Cluster, Node
    from runs.rights.access import user_of_token
    from trainyard.contract.seals import new_key

    person = owner()
    _, token = create_token(actor=person, name="benchmarks")
    assert user_of_token(token) is not None
    cluster, _ = Cluster.objects.get_or_create(name="local")
    node = Node.objects.create(cluster=cluster, name="bench", key=new_key(), address="127.0.0.1", slots=1)
    return MetricsStack(home, socket, client, person, node, token)


def wait_for_line(process: subprocess.Popen[str], text: str) -> str:
    """Return the line with ``text`` once the process has printed it. Raises SystemExit where it ends or is silent."""
    assert process.stdout is not None
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        if not select.select([process.stdout], [], [], 0.2)[0]:
            continue
        line = process.stdout.readline()
        if text in line:
            return line
        if not line:
            break
    raise SystemExit(f"{process.args!r} did not say {text!r}")


class ProcessUsage:
    """Follows one process: its largest PSS at a look(), and the CPU seconds that it took until the last one."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self.pss = 0
        self.used_cpu_s = 0.0
        self._cpu_at_start = self._cpu_s()

    def look(self) -> None:
        self.used_cpu_s = self._cpu_s() - self._cpu_at_start
        self.pss = max(self.pss, int(self._process.memory_full_info().pss))

    def _cpu_s(self) -> float:
        times: Any = self._process.cpu_times()
        return float(times.user + times.system)
