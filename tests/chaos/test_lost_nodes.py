"""A whole node dies: node worker, warm process, supervisor and ranks at once. Its run carries on without a hand."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator

import psutil
import pytest

from tests.chaos.own_nodes import OwnNodes, in_contact, placed_on, trainyard_with_own_nodes
from tests.chaos.scene import FIGURES, ROWS, Figure, Scene
from tests.up_process import Up, wait_until
from tests.whole.runs import Document, Yard

pytestmark = [pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(600)]
NODES = ("one", "two", "three", "four")
LEASE = "10s"
NUM_SEEDS = int(os.environ.get("CHAOS_SEEDS", "1"))
House = tuple[Up, Yard, OwnNodes]


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with trainyard_with_own_nodes() as (up, yard, nodes):
        nodes.start_all(*NODES)
        yield up, yard, nodes


@pytest.fixture
def scene(house: House) -> Iterator[Scene]:
    up, yard, nodes = house
    wait_until(lambda: set(NODES) <= in_contact(yard), "every node is there", patience_s=90)
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(10_000)))
    print(f"\nCHAOS_SEED={seed}")
    yield Scene(up, yard, seed)
    yard.stop_what_is_left()
    nodes.start_the_dead()


def events(yard: Yard, run: str, code: str) -> list[Document]:
    found = [event for event in yard.get(f"/runs/{run}/events", limit=200)["items"] if event["code"] == code]
    return sorted(found, key=lambda event: str(event["at"]))


def gang(num_nodes: int) -> Document:
    return {"resources": {"nodes": num_nodes, "processes_per_node": 1, "accelerator": "cpu"}}


@pytest.mark.parametrize("number", range(min(NUM_SEEDS, 5)))
def test_a_run_on_three_nodes_loses_one_and_goes_on_with_a_spare(
    house: House, scene: Scene, request: pytest.FixtureRequest, number: int
) -> None:
    _, yard, nodes = house
    run = scene.submit(steps=600, batch_size=6, **gang(3))
    scene.wait_for_a_step(run, 60, 200)
    lost = scene.choice.choice(placed_on(yard, run))
    died_at = time.time()
    nodes.kill(lost)
    wait_until(lambda: events(yard, run, "restarting"), "the run is started again", patience_s=60)
    restarting = events(yard, run, "restarting")[0]
    assert lost in restarting["sentence"], restarting["sentence"]
    assert "Restart 1 of 3 follows at once, from step " in restarting["sentence"]
    scene.wait_until(run, "recovered")
    recovered = events(yard, run, "recovered")[0]
    attempt = yard.get(f"/runs/{run}/attempts")["items"][0]
    assert (attempt["cause"]["class"], attempt["cause"]["node"]) == ("node-lost", lost), attempt["cause"]
    assert lost not in placed_on(yard, run), "it did not come back"
    row = scene.finish("node is lost, with a spare")
    certain_s = scene.seconds_of(restarting["at"]) - died_at
    took_s = float(recovered["data"]["seconds"])
    request.config.stash.setdefault(ROWS, []).append(row)
    figures = request.config.stash.setdefault(FIGURES, [])
    figures.append(Figure("node lost: death to certainty", certain_s))
    figures.append(Figure("node lost: certainty to the next new step", took_s, goal_s=10.0))
    print(f"  {row}; certain after {certain_s:.1f} s, then {took_s:.1f} s to the next new step")
    assert row.is_clean and row.attempts == 2


def test_without_a_spare_the_run_waits_for_the_nodes_return(
    house: House, scene: Scene, request: pytest.FixtureRequest
) -> None:
    _, yard, nodes = house
    run = scene.submit(steps=400, batch_size=4, **gang(4))
    scene.wait_for_a_step(run, 60, 120)
    lost = scene.choice.choice(NODES)
    nodes.kill(lost)
    wait_until(lambda: events(yard, run, "restarting"), "the run is started again", patience_s=60)
    wait_until(lambda: "waiting for" in yard.run(run)["reason"]["sentence"], "it waits for room", patience_s=30)
    assert yard.run(run)["status"] == "RECOVERING"
    scene.check_status(run)
    nodes.start(lost)
    row = scene.finish("node is lost and returns")
    request.config.stash.setdefault(ROWS, []).append(row)
    assert row.is_clean and row.attempts == 2


def test_the_only_node_of_a_run_never_returns_and_another_takes_over_after_the_lease(
    house: House, scene: Scene, request: pytest.FixtureRequest
) -> None:
    """Nothing can confirm the end: the lease is the proof."""
    _, yard, nodes = house
    run = scene.submit(steps=1500, restarts={"lease": LEASE}, **gang(1))
    scene.wait_for_a_step(run, 60, 120)
    (lost,) = placed_on(yard, run)
    nodes.kill(lost)
    wait_until(lambda: yard.run(run)["attempt"] == 2, "it is placed again", patience_s=60)
    assert placed_on(yard, run) != [lost]
    cause = yard.get(f"/runs/{run}/attempts")["items"][0]["cause"]
    assert (cause["class"], cause["node"]) == ("node-lost", lost)
    assert cause["sentence"].startswith(f"Node {lost} has been out of contact for more than 10 s: it counts as lost")
    row = scene.finish("only node is lost, never returns")
    request.config.stash.setdefault(ROWS, []).append(row)
    assert row.is_clean and row.attempts == 2


def test_a_supervisor_paused_past_its_lease_is_replaced_and_ends_its_ranks_when_it_goes_on(
    house: House, scene: Scene, request: pytest.FixtureRequest
) -> None:
    _, yard, _ = house
    run = scene.submit(steps=3000, restarts={"lease": LEASE}, **gang(1))
    scene.wait_for_a_step(run, 60, 120)
    (paused,) = placed_on(yard, run)
    (report,) = scene.reports(run)
    supervisor, ranks = int(report["supervisor_pid"]), [int(rank["pid"]) for rank in report["ranks"]]
    os.kill(supervisor, signal.SIGSTOP)
    try:
        wait_until(lambda: yard.run(run)["attempt"] == 2, "it is placed again", patience_s=60)
        assert placed_on(yard, run) != [paused], "its slots are held until it has confirmed"
    finally:
        with contextlib.suppress(ProcessLookupError):  # its node has ended it
            os.kill(supervisor, signal.SIGCONT)
    wait_until(lambda: not any(psutil.pid_exists(rank) for rank in ranks), "its ranks have ended", patience_s=20)
    row = scene.finish("supervisor is paused past its lease")
    request.config.stash.setdefault(ROWS, []).append(row)
    assert row.is_clean and row.attempts == 2
