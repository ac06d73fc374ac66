"""Checks of the two nodes of a running Trainyard: by themselves, on demand, and before a run."""

from __future__ import annotations

import pytest

from tests.up_process import Up
from tests.whole.runs import Yard, example
from tests.workers.control import until

pytestmark = pytest.mark.extended


def test_nodes_check_themselves_and_each_other(running_trainyard: Up) -> None:
    with Yard(running_trainyard) as yard:
        nodes = {one["name"] for one in yard.get("/nodes")["items"]}

        def connections() -> list[str]:
            checks = yard.get("/clusters/local/checks")["checks"]
            return [one["node"] for one in checks if one["name"] == "connection" and one["state"] == "ok"]

        until(lambda: set(connections()) == nodes)
        found = {(one["name"], one["state"]) for one in yard.get("/clusters/local/checks")["checks"]}
    assert {("versions", "ok"), ("clock", "ok"), ("connection", "ok")} <= found
    assert "fail" not in {state for _, state in found}


def test_a_preflight_on_demand_has_a_collective_over_the_nodes(running_trainyard: Up) -> None:
    with Yard(running_trainyard) as yard:
        answer = yard.http.post("/clusters/local/preflight", json={})
        assert answer.status_code == 202, answer.text
        asked = answer.json()

        def ended() -> dict[str, object] | None:
            (mine,) = [one for one in yard.get("/clusters/local/preflights")["items"] if one["id"] == asked["id"]]
            return mine if mine["state"] != "running" else None

        found = until(ended)
    (collective,) = [one for one in found["checks"] if one["name"] == "collective"]
    assert collective["state"] == "ok", collective
    assert collective["unit"] == "B/s" and collective["value"] > 0
    assert "An all-reduce of 4.0 MiB over 2 nodes" in collective["sentence"]


def test_a_run_that_always_checks_begins_once_its_nodes_have_passed_a_check_made_for_it(yard: Yard) -> None:
    spec = example("tiny-steps", steps=20, batch_size=2, warmup_steps=1, validate_every_steps=0)
    run = yard.submit(spec | {"preflight": "always", "resources": {"nodes": 2, "accelerator": "cpu"}})
    ended = yard.wait_for_end(run)
    assert (ended["status"], ended["attempt"]) == ("SUCCEEDED", 1), ended["reason"]
    asked = [one for one in yard.get("/clusters/local/preflights")["items"] if one["created_at"] >= ended["created_at"]]
    assert len(asked) == 1 and set(asked[0]["nodes"]) == {"local-1", "local-2"}, asked
    assert asked[0]["state"] in ("ok", "warn"), asked
    (collective,) = [one for one in asked[0]["checks"] if one["name"] == "collective"]
    assert collective["state"] == "ok", collective
    attempt = yard.get(f"/runs/{run}/attempts")["items"][0]
    assert attempt["created_at"] >= asked[0]["ended_at"], "it was placed after the check"
