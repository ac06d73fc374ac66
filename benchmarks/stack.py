"""A whole Trainyard for the benchmarks: `up` in a temporary home, and the few REST calls that they need."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import redis

from dashboard.up.valkey import server_command
from tests.servers import wait_until_it_answers
from trainyard.contract.answers import runs as run_answers
from trainyard.contract.base import JsonObject

READY_S = 60.0
FINAL = {"SUCCEEDED", "FAILED", "CANCELLED"}


@dataclass
class Stack:
    home: Path
    url: str
    token: str
    http: httpx.Client

    def get(self, path: str, **params: Any) -> Any:
        answer = self.http.get(f"/api/v1{path}", params=params)
        answer.raise_for_status()
        return answer.json()

    def num_in_contact(self) -> int:
        return sum(node["is_in_contact"] for node in self.get("/nodes")["items"])

    def submit(self, spec: JsonObject) -> str:
        """Launch ``spec`` and return the run's id."""
        answer = self.http.post("/api/v1/runs", json=spec)
        if answer.status_code != 201:
            raise SystemExit(f"the run was refused: {answer.text}")
        return str(answer.json()["id"])

    def bundle(self, data: bytes) -> str:
        """Store a packed folder and return its SHA-256."""
        answer = self.http.post(
            "/api/v1/bundles",
            params={"project": "default"},
            content=data,
            headers={"Content-Type": "application/octet-stream"},
        )
        answer.raise_for_status()
        return str(answer.json()["sha256"])

    def wait(self, run_id: str, seconds: float = 120) -> run_answers.Run:
        """Return the run once it is over. Raises SystemExit when that takes too long or it did not succeed."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            run: run_answers.Run = self.get(f"/runs/{run_id}")
            if run["status"] in FINAL:
                if run["status"] != "SUCCEEDED":
                    raise SystemExit(f"run {run_id} ended {run['status']}: {run['reason']}")
                return run
            time.sleep(0.1)
        raise SystemExit(f"run {run_id} was not over after {seconds:g} s: {self.get(f'/runs/{run_id}')}")

    def column(self, run_id: str, name: str, column: str) -> list[float]:
        """Return one column of a series without labels."""
        data = self.get(f"/runs/{run_id}/series/data", name=name, points=10_000)
        return list(data["series"][0][column])

    def process(self, name: str) -> int:
        """Return the pid of a process of `up`."""
        listed = json.loads((self.home / "processes.json").read_text())
        rows = listed["processes"] if isinstance(listed, dict) else listed
        return next(int(row["pid"]) for row in rows if row["name"] == name)


@contextmanager
def running(nodes: int = 2) -> Iterator[Stack]:
    """Start `up` with local nodes, wait until all are in contact, and stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="trainyard-bench-") as folder:
        home = Path(folder) / "home"
        environment = {**os.environ, "TRAINYARD_HOME": str(home), "PORT": str(free_port()), "NODES": str(nodes)}
        with (Path(folder) / "up.log").open("wb") as log:
            up = subprocess.Popen(
                [sys.executable, "-m", "dashboard.up"],
                env=environment,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        try:
            yield wait_until_ready(up, home, nodes, Path(folder) / "up.log")
        finally:
            up.send_signal(signal.SIGTERM)
            up.wait(timeout=30)


@contextmanager
def node_of(stack: Stack, slots: int) -> Iterator[None]:
    """A node beside those of `up`, with as many slots as are wanted, whatever the machine has."""
    answer = stack.http.post("/api/v1/clusters/local/join-tokens")
    answer.raise_for_status()
    home = stack.home.parent / "node"
    command = [sys.executable, "-m", "workers.node", "--name", "wide", "--home", str(home), "--server", stack.url]
    with (stack.home.parent / "node.log").open("wb") as log:
        node = subprocess.Popen(
            [*command, "--slots", str(slots)],
            env={**os.environ, "TRAINYARD_JOIN": answer.json()["token"]},
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
    try:
        before, deadline = stack.num_in_contact(), time.monotonic() + READY_S
        while stack.num_in_contact() == before:
            if time.monotonic() > deadline or node.poll() is not None:
                raise SystemExit(f"the node did not come:\n{(stack.home.parent / 'node.log').read_text()[-4000:]}")
            time.sleep(0.1)
        yield
    finally:
        node.terminate()
        node.wait(timeout=30)


def wait_until_ready(up: subprocess.Popen[bytes], home: Path, nodes: int, log: Path) -> Stack:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and up.poll() is None:
        try:
            client = tomllib.loads((home / "client.toml").read_text())
            http = httpx.Client(
                base_url=client["url"], headers={"Authorization": f"Bearer {client['token']}"}, timeout=30
            )
            stack = Stack(home, client["url"], client["token"], http)
            if stack.num_in_contact() == nodes:
                return stack
        except (OSError, KeyError, httpx.HTTPError, tomllib.TOMLDecodeError):
            pass
        time.sleep(0.1)
    raise SystemExit(f"Trainyard was not ready after {READY_S:g} s:\n{log.read_text()[-4000:]}")


@contextmanager
def valkey(folder: Path, *, durable: bool = True) -> Iterator[redis.Redis]:
    """Start a Valkey on a Unix socket in ``folder`` (a short path), as `up` does, and yield a client of it."""
    path = folder / "valkey.sock"
    server = subprocess.Popen(
        server_command(folder, path, durable=durable),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until_it_answers(path)
        with redis.Redis(unix_socket_path=str(path)) as client:
            yield client
    finally:
        server.terminate()
        server.wait(timeout=30)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def percentile(values: list[float], share: float) -> float:
    """Return the value below which ``share`` (0 to 1) of the values lie; the nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
