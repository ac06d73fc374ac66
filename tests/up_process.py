"""A whole Trainyard as `make up` starts it, for the tests that want one."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path
from typing import Any

import psutil

from dashboard.up.parent_death import tethered
from tests import migrated

ROOT = Path(__file__).resolve().parents[1]
OURS = ("TRAINYARD_", "DJANGO_", "REDIS_URL", "DATABASE_URL", "SECRET_KEY", "HOST", "PORT", "NODES", "ONCE")
PATIENCE_S = 120.0


class Up:
    """One `python -m dashboard.up`, what it said, and what it left running."""

    def __init__(
        self, home: Path, *words: str, command: list[str] | None = None, folder: Path = ROOT, **changes: str
    ) -> None:
        """``command``, in place of this repository's ``up``, is started in ``folder``."""
        self.home = home
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        environment = {**inherited, "TRAINYARD_HOME": str(home), "PORT": "0", "NODES": "0", **changes}
        environment.setdefault("TRAINYARD_MEMORY", str(home.parent))  # what a killed node leaves goes with the test
        self.lines: list[str] = []
        self._has_given_link = False
        self._said = threading.Condition()
        self.process = subprocess.Popen(
            tethered([*(command or [sys.executable, "-m", "dashboard.up"]), *words]), cwd=folder, env=environment,
            text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def url(self) -> str:
        return str(self._client()["url"])

    @property
    def token(self) -> str:
        return str(self._client()["token"])

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def wait_until_said(self, text: str) -> str:
        """Return the first line with ``text``; fail when the process ends, or takes too long, without saying it."""
        deadline = time.monotonic() + PATIENCE_S
        seen = 0
        while True:
            with self._said:
                for line in self.lines[seen:]:
                    if text in line:
                        keep_static_files(self.home)
                        return line
                seen = len(self.lines)
                assert self._reader.is_alive(), f"it ended without {text!r}:\n{self.output}"
                assert time.monotonic() < deadline, f"it did not say {text!r}:\n{self.output}"
                self._said.wait(0.5)

    def wait_until_ready(self) -> Up:
        self.wait_until_said("Ready in")
        return self

    def take_link(self) -> str:
        """Return the sign-in link that it has said, which works once: empty from the second time on."""
        start = "Sign in (once, within a day): "
        found = [line.partition(start)[2] for line in self.lines if start in line]
        if self._has_given_link or not found:
            return ""
        self._has_given_link = True
        return found[-1].strip()

    def wait_for_end(self) -> int:
        code = self.process.wait(PATIENCE_S)
        self._reader.join(5)
        return code

    def processes(self) -> dict[str, int]:
        """Name to process id, as processes.json says."""
        rows: list[dict[str, Any]] = json.loads((self.home / "processes.json").read_text())
        return {row["name"]: row["pid"] for row in rows}

    def descendants(self) -> list[psutil.Process]:
        """Every process that it started, directly or not; take it before it ends."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        return self.wait_for_end()

    def close(self) -> None:
        """End it whatever state it is in, and close its pipe."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(15)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reader.join(5)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _client(self) -> dict[str, Any]:
        return tomllib.loads((self.home / "client.toml").read_text())

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._said:
                self.lines.append(line.rstrip("\n"))
                self._said.notify_all()


def new_home(folder: Path, *, is_migrated: bool = True) -> Path:
    """Return a home in ``folder`` which `up` finds tables in, and static files, once a test of this process has let it
    collect them: both take seconds of CPU time, and they are the same for all."""
    home = folder / "home"
    home.mkdir(mode=0o700)
    if is_migrated:
        migrated.copy_into(home)
    if kept_static_files().exists():
        shutil.copytree(kept_static_files(), home / "static", copy_function=link_or_copy)
    return home


def link_or_copy(source: str, target: str) -> None:
    """What is written there is never changed in place, so that links will do, on the same disk."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def keep_static_files(home: Path) -> None:
    if (home / "static" / "collected").exists() and not kept_static_files().exists():
        shutil.copytree(home / "static", kept_static_files(), copy_function=link_or_copy)


def kept_static_files() -> Path:
    return Path(os.environ["TRAINYARD_HOME"]).parent / "static-of-up"


def wait_until(condition: Any, what: str, patience_s: float = PATIENCE_S) -> None:
    """Return as soon as ``condition()`` holds; fail with ``what`` when that takes too long."""
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"it never came to be: {what}"
        time.sleep(0.05)
