"""What the tests of the whole Trainyard ask of its REST API."""

from __future__ import annotations

import time
from typing import Any

import httpx
import yaml

from tests.up_process import ROOT, Up

FINAL = {"SUCCEEDED", "FAILED", "CANCELLED"}
Document = dict[str, Any]


class Yard:
    """A running Trainyard, through its API."""

    def __init__(self, up: Up) -> None:
        self.up = up
        transport = httpx.HTTPTransport(retries=5)
        headers = {"Authorization": f"Bearer {up.token}"}
        self.http = httpx.Client(base_url=f"{up.url}/api/v1", headers=headers, timeout=30, transport=transport)
        self._submitted: list[str] = []

    def __enter__(self) -> Yard:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def get(self, path: str, **params: Any) -> Any:
        answer = self.http.get(path, params=params)
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

    def wait_for_step(self, run_id: str, step: int, seconds: float = 120) -> Document:
        deadline = time.monotonic() + seconds
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

    def steps(self, run_id: str, name: str) -> dict[str, list[int]]:
        """Return the steps of a series, in order, by its labels as text."""
        data = self.get(f"/runs/{run_id}/series/data", name=name, points=10_000)
        assert all(series["kind"] == "raw" for series in data["series"])
        return {str(sorted(series["labels"].items())): series["step"] for series in data["series"]}


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
