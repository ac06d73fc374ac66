"""Steps that are traced while a run goes on: through every process that there is."""

from __future__ import annotations

import gzip
import json
import time

from tests.browser.conftest import tiny
from tests.whole.runs import Yard


def test_the_traces_of_both_nodes_are_there_while_the_run_goes_on(yard: Yard) -> None:
    run_id = yard.submit(tiny("traced", steps=100_000) | {"resources": {"nodes": 2}})
    yard.wait_for_step(run_id, 5)
    answer = yard.http.post(f"/runs/{run_id}/trace", json={"steps": 2})
    assert answer.status_code == 202, answer.text
    first, last = answer.json()["first_step"], answer.json()["last_step"]
    assert (last, answer.json()["ranks"]) == (first + 1, [0, 1])
    again = yard.http.post(f"/runs/{run_id}/trace", json={})
    assert (again.status_code, "is under way" in again.json()["detail"]) == (409, True), again.text
    names = [f"traces/step-{first}.rank-{rank}.json.gz" for rank in range(2)]
    deadline = time.monotonic() + 180  # it begins as many steps ahead as would take 5 s if none got slower
    while not ({"traced"} <= codes(yard, run_id).keys() and set(names) <= paths(yard, run_id)):
        assert time.monotonic() < deadline, (codes(yard, run_id), paths(yard, run_id))
        time.sleep(0.1)
    assert yard.run(run_id)["status"] == "RUNNING"
    assert codes(yard, run_id)["traced"] == f"Traced steps {first:,} to {last:,} on 2 ranks."
    for name in names:
        trace = json.loads(gzip.decompress(yard.http.get(f"/runs/{run_id}/files/{name}").content))
        steps = {event["name"] for event in trace["traceEvents"] if str(event.get("name")).startswith("step ")}
        assert steps == {f"step {first}", f"step {last}"}
    yard.post(f"/runs/{run_id}/stop")
    yard.wait_for_end(run_id)


def codes(yard: Yard, run_id: str) -> dict[str, str]:
    return {event["code"]: event["sentence"] for event in yard.get(f"/runs/{run_id}/events")["items"]}


def paths(yard: Yard, run_id: str) -> set[str]:
    return {file["path"] for file in yard.get(f"/runs/{run_id}/files")["items"]}
