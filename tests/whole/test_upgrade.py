"""An upgrade under load: control, ingest and two webs behind nginx are started again one by one, as docs/operate.md
says, while our own client asks. No call fails."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from dashboard.up.parent_death import tethered
from tests.servers import free_port, short_folder
from tests.up_process import ROOT, wait_until
from tests.whole.test_behind_a_proxy import PATH, Served
from tests.whole.test_behind_a_proxy import pytestmark as needs_root
from trainyard.rest.client import Client

TOKEN = """
from dashboard.up.database import set_up_django
set_up_django()
from runs.actions import create_token, first_start
from runs.models import User
first_start()
print(create_token(actor=User.objects.get(), name="load")[1])
"""
pytestmark = [needs_root, pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(600)]


class TwoWebs(Served):
    """The documented site with the second line of its upstream."""

    def __init__(self, folder: Path, program: str) -> None:
        super().__init__(folder, "nginx", program)
        self.ports = [self.web_port, free_port()]
        self.others: dict[str, subprocess.Popen[bytes]] = {}

    def nginx_site(self) -> str:
        second = "server 127.0.0.1:{} max_fails=0;".format
        site = super().nginx_site()
        assert f"# {second(8001)}" in site
        return site.replace(f"# {second(8001)}", second(self.ports[1]))

    def begin(self, name: str, *words: str, port: int = 0) -> None:
        command = tethered([sys.executable, "-m", "dashboard.serve", *words])
        self.others[name] = subprocess.Popen(command, cwd=ROOT, env={**self.environment, "PORT": str(port)})
        if port:
            wait_until(lambda: is_live(port), f"{name} answers")

    def end(self, name: str) -> None:
        process = self.others.pop(name)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)

    def stop(self) -> None:
        for name in list(self.others):
            self.end(name)
        super().stop()


def is_live(port: int) -> bool:
    try:
        return bool(httpx.get(f"http://127.0.0.1:{port}/api/v1/health", timeout=10).json()["live"])
    except (httpx.TransportError, ValueError):
        return False


@pytest.fixture
def served() -> Iterator[TwoWebs]:
    program = shutil.which("nginx", path=PATH)
    if program is None:
        pytest.skip("nginx is not on this machine (Debian: apt-get install nginx-light)")
    with short_folder("ty-upgrade-") as folder:
        folder.chmod(0o755)
        one = TwoWebs(folder, program)
        try:
            one.start()
            yield one
        finally:
            one.stop()


class Load(threading.Thread):
    """Asks in one thread again and again, and keeps how long each call took, and what failed."""

    def __init__(self, client: Client, writes: bool) -> None:
        super().__init__()
        self._client, self._writes, self.is_over = client, writes, threading.Event()
        self.seconds: list[float] = []
        self.failed: list[str] = []

    def run(self) -> None:
        while not self.is_over.wait(0.1):
            began = time.monotonic()
            try:
                if self._writes:
                    self._client.create_token(f"number {len(self.seconds)}")
                else:
                    list(self._client.runs(limit=5))
            except Exception as error:
                self.failed.append(f"{type(error).__name__}: {error}")
            self.seconds.append(time.monotonic() - began)


def test_no_call_fails_while_everything_is_started_again(
    served: TwoWebs, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("TRAINYARD_CA", str(served.folder / "ca.pem"))
    words = [sys.executable, "-c", TOKEN]
    done = subprocess.run(words, cwd=ROOT, env=served.environment, check=True, capture_output=True, text=True)
    served.begin("web-1", "web", port=served.ports[1])
    for name in ("control", "ingest"):
        served.begin(name, name)
    first = served.processes[0]
    with Client(served.url, done.stdout.split()[-1]) as client:
        loads = [Load(client, writes) for writes in (False, False, True)]
        for one in loads:
            one.start()
        try:
            wait_until(lambda: all(len(one.seconds) > 5 for one in loads), "calls are answered")
            code = subprocess.run(
                [sys.executable, "-m", "dashboard.serve", "migrate"], cwd=ROOT, env=served.environment, check=False
            ).returncode
            assert code == 0
            for name in ("control", "ingest"):
                served.end(name)
                served.begin(name, name)
            first.send_signal(signal.SIGTERM)
            first.wait(timeout=60)
            served.begin("web-0", "web", port=served.ports[0])
            served.end("web-1")
            served.begin("web-1", "web", port=served.ports[1])
            seen = [len(one.seconds) for one in loads]
            wait_until(lambda: all(len(one.seconds) > was + 5 for one, was in zip(loads, seen, strict=True)), "more")
        finally:
            for one in loads:
                one.is_over.set()
            for one in loads:
                one.join()
    seconds = [each for one in loads for each in one.seconds]
    print(
        f"\nupgrade: {len(seconds)} calls, {sum(len(one.failed) for one in loads)} failed, longest {max(seconds):.2f} s"
    )
    assert [one.failed for one in loads] == [[], [], []]
    assert max(seconds) < 60
