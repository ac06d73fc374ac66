"""Runs the peers' scripts, each in a process and a folder of its own, by the peers' interpreter."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.table import scaled
from benchmarks.trackers import PYTHON as PEERS_PYTHON

ROOT = Path(__file__).resolve().parents[1]
TITLES = {"trackio": "Trackio", "tensorboard": "TensorBoard", "mlflow": "MLflow", "wandb": "W&B offline"}
TIMEOUT_S = 180
# Calls or steps that take each of them a few seconds; the slow ones get fewer.
CALLS = {"trackio": 20_000, "wandb": 20_000, "tensorboard": 5_000, "mlflow": 500}
STEPS = {"trackio": 200_000, "wandb": 50_000, "tensorboard": 10_000, "mlflow": 1_000}
OURS = ("TRAINYARD_", "DJANGO_", "PYTHONPATH", "REDIS_URL", "DATABASE_URL")


Figures = dict[str, float]  # what a peer measured, by name


@dataclass
class Answers:
    """What the peers answered, by name, and why some did not."""

    found: dict[str, Figures] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def of(self, key: str) -> dict[str, float | None]:
        """One figure of every peer that has it, by the peer's title; None for those not measured."""
        known: dict[str, float | None] = {TITLES[name]: found.get(key) for name, found in self.found.items()}
        return {title: value for title, value in known.items() if value is not None} | {
            TITLES[name]: None for name in self.missing
        }

    def best(self, key: str, *, least: bool = True) -> tuple[str, float | None]:
        """The title and the figure of the best of those that were measured."""
        known = [(value, title) for title, value in self.of(key).items() if value is not None]
        if not known:
            return "no peer could be measured", None
        value, title = min(known) if least else max(known)
        return title, value

    def others(self, key: str, besides: str) -> dict[str, float | None]:
        return {title: value for title, value in self.of(key).items() if title != besides}

    @property
    def note(self) -> str:
        return "; ".join(f"{TITLES[name]} not measured: {why}" for name, why in self.missing.items())


def versions() -> dict[str, str]:
    """Return the versions of the peers that are installed, by name."""
    folders = [str(path) for path in PEERS_PYTHON.parents[1].glob("lib/python*/site-packages")]
    found = {one.name: one.version for one in importlib.metadata.distributions(path=folders)}
    return {name: found[name] for name in TITLES if name in found}


def measure(task: str, counts: dict[str, int]) -> Answers:
    """Put the peers in ``counts`` through ``task`` (cost or ingest), one after the other. One that fails is named, and
    said on stderr."""
    answers = Answers()
    for name in counts:
        try:
            answers.found[name] = one(name, task, scaled(counts[name], least=20))
        except PeerFailed as error:
            answers.missing[name] = str(error)
            print(f"{TITLES[name]} is not measured: {error}\n{error.output}", file=sys.stderr)
    return answers


class PeerFailed(Exception):
    """A peer that is not installed, or did not do what was asked; ``output`` is what it said."""

    def __init__(self, sentence: str, output: str = "") -> None:
        super().__init__(sentence)
        self.output = output


def one(name: str, task: str, count: int) -> Figures:
    """Put one peer through one task. Raises PeerFailed."""
    if not PEERS_PYTHON.exists():
        raise PeerFailed("not installed (`make bench` installs it)")
    with tempfile.TemporaryDirectory(prefix=f"peer-{name}-", ignore_cleanup_errors=True) as folder:
        answer = Path(folder) / "answer.json"
        work = Path(folder) / "work"
        work.mkdir()
        environment = {key: value for key, value in os.environ.items() if not key.startswith(OURS)}
        # What a tracker keeps at home stays out of the home of whoever measures.
        environment |= {"HOME": folder, "DO_NOT_TRACK": "1"}
        words = [str(PEERS_PYTHON), "-m", f"benchmarks.peers.{name}", task, str(count), str(work), str(answer)]
        process = subprocess.Popen(
            words, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
        try:
            said, _ = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            end_with_children(process)
            raise PeerFailed(f"took more than {TIMEOUT_S} s for {count:,}") from error
        if process.returncode != 0 or not answer.exists():
            raise PeerFailed(f"ended with status {process.returncode}", said[-2_000:])
        found: Figures = json.loads(answer.read_text())
        return {**found, "count": count}


def end_with_children(process: subprocess.Popen[str]) -> None:
    """Kill a peer's script and the servers that it started, leaders of their own groups; wait for that."""
    servers = psutil.Process(process.pid).children(recursive=True)
    for one_of_them in (*servers, psutil.Process(process.pid)):
        with contextlib.suppress(psutil.NoSuchProcess):
            one_of_them.kill()
    process.communicate()
    # They are nobody's children now: a busy machine may need a moment to end them.
    deadline = time.monotonic() + 10
    while any(one_of_them.is_running() and not is_zombie(one_of_them) for one_of_them in servers):
        if time.monotonic() > deadline:
            raise PeerFailed("left a server behind that does not end")
        time.sleep(0.01)


def is_zombie(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    return True
