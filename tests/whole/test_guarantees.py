"""Two projects on two nodes: what one is guaranteed is lent while it is idle, and taken back with a save first."""

from __future__ import annotations

import pytest

from tests.browser.conftest import tiny
from tests.whole.runs import Document, Yard

pytestmark = pytest.mark.timeout(600)


def training(name: str, project: str, steps: int, per_node: int = 1) -> Document:
    spec: Document = tiny(name, steps=steps, batch_size=8, validate_every_steps=0)
    resources = {"nodes": 2, "processes_per_node": per_node, "accelerator": "cpu"}
    return {**spec, "project": project, "resources": resources, "checkpoint": {"every_steps": 10, "keep": 3}}


def test_a_guarantee_is_taken_back_and_the_curve_of_the_run_that_gave_way_is_as_undisturbed(yard: Yard) -> None:
    project = yard.post("/projects", {"name": "owed"})
    yard.http.patch("/clusters/local", json={"projects": ["default", "owed"]}).raise_for_status()
    slots = yard.get("/clusters/local")["num_slots"]
    yard.http.put(f"/projects/{project['id']}/limits", json={"guaranteed_slots": slots}).raise_for_status()
    try:
        alone = yard.submit(training("alone", "default", 300))
        assert yard.wait_for_end(alone)["status"] == "SUCCEEDED"
        lent = yard.submit(training("lent", "default", 300))
        yard.wait_for_step(lent, 20)
        owed = yard.submit(training("owed", "owed", 20, per_node=slots // 2))
        assert yard.wait_for_end(owed)["status"] == "SUCCEEDED"
        ended = yard.wait_for_end(lent)
        assert ended["status"] == "SUCCEEDED", ended["reason"]
        words = [one["sentence"] for one in yard.get(f"/runs/{lent}/events", limit=200)["items"]]
        assert any(one.startswith("Project owed needs slots that it is guaranteed, for run owed: ") for one in words), (
            words
        )
        first, second = yard.attempts(lent)
        assert first["cause"]["class"] == "preempted" and second["number"] == 2
        assert yard.losses(lent) == yard.losses(alone)
        used = {one["name"]: one["slot_seconds"] for one in yard.get("/usage", by="project")["items"]}
        assert used["default"] > used["owed"] > 0
    finally:
        yard.http.put(f"/projects/{project['id']}/limits", json={})
