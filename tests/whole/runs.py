"""What the tests of the whole Trainyard ask of its REST API."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.up_process import ROOT, Up, wait_until

FINAL = {"SUCCEEDED", "FAILED", "CANCELLED"}
Document = dict[str, Any]


class Yard:
    """A running Trainyard, through its API."""

    patience_s = 120.0

    def __init__(self, up: Up) -> None:
        self.up = up
        transport = httpx.HTTPTransport(retries=5)
        headers = {"Authorization": f"Bearer {up.token}"}
        self.http = httpx.Client(base_url=f"{up.url}/api/v1", headers=headers, timeout=30, transport=transport)
        self._submitted: list[str] = []
        self._killed: dict[str, int] = {}  # by name, the last process that was killed

    def __enter__(self) -> Yard:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def get(self, path: str, **params: Any) -> Any:
        answer = self.http.get(path, params=params or None)  # {} would take the query of the path away
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None) -> Any:
        answer = self.http.post(path, json=body or {})
        assert answer.status_code in (200, 201), answer.text
        return answer.json()

    def submit(self, spec: Document) -> str:
        self._submitted.append(str(self.post("/runs", spec)["id"]))
        return self._submitted[-1]

    def stop_what_is_left(self) -> None:
        """Stop what this one submitted and a failed test has left running: all others would wait for its nodes."""
        for run_id in self._submitted:
            answer = self.http.get(f"/runs/{run_id}")
            if answer.status_code == 200 and answer.json()["status"] not in FINAL:  # else it was deleted, or has ended
                self.http.post(f"/runs/{run_id}/stop")

    def run(self, run_id: str) -> Document:
        """Return the run, waiting for a web process that is just being restarted."""
        deadline = time.monotonic() + 30
        while True:
            try:
                document: Document = self.get(f"/runs/{run_id}")
                return document
            except httpx.TransportError:
                assert time.monotonic() < deadline, "the site did not come back"
                time.sleep(0.1)

    def sentence(self, run_id: str) -> str:
        return str(self.run(run_id)["reason"]["sentence"])

    def attempts(self, run_id: str) -> list[Document]:
        found: list[Document] = self.get(f"/runs/{run_id}/attempts")["items"]
        return sorted(found, key=lambda one: one["number"])

    def wait_for(self, is_true: Callable[[], object], words: str | Callable[[], object], seconds: float = 0) -> None:
        """Return once it holds; fail with ``words``, which may be asked for at that moment."""
        deadline = time.monotonic() + (seconds or self.patience_s)
        while not is_true():
            assert time.monotonic() < deadline, words() if callable(words) else words
            time.sleep(0.2)

    def wait_for_words(self, run_id: str, words: str, seconds: float = 0) -> str:
        """Return the run's sentence once it has the words."""
        self.wait_for(lambda: words in self.sentence(run_id), lambda: self.sentence(run_id), seconds)
        return self.sentence(run_id)

    def wait_for_attempt(self, run_id: str, number: int, step: int, seconds: float = 0) -> None:
        seconds = seconds or max(180.0, self.patience_s)

        def is_there() -> bool:
            return len(self.attempts(run_id)) >= number

        self.wait_for(is_there, lambda: f"no attempt {number}: {self.sentence(run_id)}", seconds)
        self.wait_for_step(run_id, step, seconds)

    def wait_for_step(self, run_id: str, step: int, seconds: float = 0) -> Document:
        deadline = time.monotonic() + (seconds or self.patience_s)
        while True:
            run = self.run(run_id)
            assert run["status"] not in FINAL or (run["step"] or 0) >= step, (run["status"], run["reason"], run["step"])
            if (run["step"] or 0) >= step:
                return run
            assert time.monotonic() < deadline, f"step {step} never came: {run['status']}, step {run['step']}"
            time.sleep(0.1)

    def wait_for_end(self, run_id: str, seconds: float = 240) -> Document:
        deadline = time.monotonic() + seconds
        while True:
            run = self.run(run_id)
            if run["status"] in FINAL:
                return run
            assert time.monotonic() < deadline, f"it did not end: {run['status']}, {run['reason']}, step {run['step']}"
            time.sleep(0.2)

    def file(self, run_id: str, name: str, seconds: float = 60) -> bytes:
        """Return a file of the run's output, which its node may still be sending when the run has ended."""
        deadline = time.monotonic() + seconds
        while True:
            answer = self.http.get(f"/runs/{run_id}/files/{name}")
            if answer.status_code == 200:
                return answer.content
            assert time.monotonic() < deadline, f"{name} never came: {answer.status_code} {answer.text:.200}"
            time.sleep(0.1)

    def losses(self, run_id: str) -> dict[int, set[float]]:
        """Return the losses of each step: more than one where attempts differ."""
        data = self.get(f"/runs/{run_id}/series/data", name="train/loss", points=10_000)
        found: dict[int, set[float]] = {}
        for series in data["series"]:
            assert series["kind"] == "raw"
            for step, value in zip(series["step"], series["value"], strict=True):
                found.setdefault(step, set()).add(value)
        return found

    def steps(self, run_id: str, name: str) -> dict[str, list[int]]:
        """Return the steps of a series, in order, by its labels as text."""
        data = self.get(f"/runs/{run_id}/series/data", name=name, points=10_000)
        assert all(series["kind"] == "raw" for series in data["series"])
        return {str(sorted(series["labels"].items())): series["step"] for series in data["series"]}

    def kill_control(self) -> None:
        self.kill_process("control")

    def kill_process(self, process: str) -> None:
        """SIGKILL control or ingest. One that was killed before is waited for: `up` starts it again after a moment."""
        found: list[int] = []

        def runs() -> bool:
            found[:] = [pid for name, pid in self.up.processes().items() if name == process]
            return bool(found) and found[0] != self._killed.get(process)

        self.wait_for(runs, f"{process} was not started again")
        self._killed[process] = found[0]
        os.kill(found[0], signal.SIGKILL)


def until(holds: Callable[[], object], seconds: float = 120) -> None:
    wait_until(holds, "what was waited for", seconds)


def points(yard: Yard, run: str, name: str) -> dict[int, float]:
    """Return a series over all attempts, by step."""
    curves = yard.get(f"/runs/{run}/series/data", name=name, points=10_000)["series"]
    assert all(curve["kind"] == "raw" for curve in curves)
    found = [pair for curve in curves for pair in zip(curve["step"], curve["value"], strict=True)]
    assert len(found) == len(dict(found)), "a step is there twice"
    return dict(found)


def example(name: str, **train: Any) -> Document:
    """Return an example's document with other values in its ``train`` section."""
    document: Document = yaml.safe_load((ROOT / "examples" / f"{name}.yaml").read_text())
    document["train"] |= train
    return document


class EngineYard(Yard):
    """One with clusters whose machines come and go with attempts."""

    def end(self, run_id: str) -> None:
        """Stop the run, and wait until its machines are given back."""
        self.post(f"/runs/{run_id}/stop")
        assert self.wait_for_end(run_id)["status"] == "CANCELLED"
        self.wait_until_nothing_is_left()

    def wait_until_nothing_is_left(self) -> None:
        """Wait until the machines have no job and no process of ours."""
        raise NotImplementedError


def node_folders(folder: Path) -> set[str]:
    """Return the folders of nodes in the folder that a cluster's machines share. Those of machines that died stay: what
    they had not sent lies there."""
    return {path.name for path in folder.glob("machines/nodes/*")}


def small(cluster: str, **train: object) -> Document:
    """``hello-gpt`` with a model that takes milliseconds a step."""
    document = example("hello-gpt", **{"steps": 40, "batch_size": 4, **train})
    document["task"]["model"] = {"layers": 1, "width": 32, "heads": 2, "context": 32}
    return {**document, "cluster": cluster}


def long_run(cluster: str) -> Document:
    return {**small(cluster, steps=200_000), "checkpoint": {"every_steps": 20}}
