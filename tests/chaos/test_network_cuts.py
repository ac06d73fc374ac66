"""The network between two nodes, or between a node and the server, carries nothing any more: nobody is told, and every
process lives."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator

import psutil
import pytest

from tests.chaos.networks import Networks, networks
from tests.chaos.own_nodes import OwnNodes, in_contact, placed_on, trainyard_with_own_nodes
from tests.chaos.scene import FIGURES, ROWS, Figure, Scene
from tests.chaos.test_lost_nodes import events, gang
from tests.servers import short_folder
from tests.up_process import Up, wait_until
from tests.whole.runs import Yard
from tests.whole.test_own_services import valkey_on_tcp

pytestmark = [pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(600)]
NODES = ("one", "two", "three")
LEASE = {"restarts": {"lease": "10s"}}
House = tuple[Up, Yard, OwnNodes, Networks]


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with (
        networks(*NODES) as cables,
        short_folder("ty-valkey-") as folder,
        valkey_on_tcp(folder, address=cables.server) as redis_url,
        trainyard_with_own_nodes(HOST=cables.server, REDIS_URL=redis_url) as (up, yard, nodes),
    ):
        for name in NODES:
            nodes.start(name, prefix=cables.prefix(name), address=cables.address(name))
        nodes.wait_for_contact(*NODES)
        yield up, yard, nodes, cables


@pytest.fixture
def scene(house: House) -> Iterator[Scene]:
    up, yard, _, _ = house
    wait_until(lambda: set(NODES) <= in_contact(yard), "every node is there", patience_s=90)
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(10_000)))
    print(f"\nCHAOS_SEED={seed}")
    yield Scene(up, yard, seed)
    yard.stop_what_is_left()


def test_a_cut_between_two_nodes_is_found_in_seconds_and_named_with_both(
    house: House, scene: Scene, request: pytest.FixtureRequest
) -> None:
    _, yard, _, cables = house
    run = scene.submit(steps=600, **gang(2))
    scene.wait_for_a_step(run, 60, 200)
    one, other = placed_on(yard, run)
    cables.cut(one, other)
    began = time.monotonic()
    try:
        wait_until(lambda: events(yard, run, "hang-found"), "the cut is found", patience_s=60)
        named_s = time.monotonic() - began
        sentence = events(yard, run, "hang-found")[0]["sentence"]
        assert sentence.endswith(f"the network between {' and '.join(sorted((one, other)))} is cut."), sentence
        wait_until(lambda: events(yard, run, "restarting"), "the run is started again", patience_s=60)
    finally:
        cables.heal(one, other)
    ended_s = time.monotonic() - began
    row = scene.finish("network between two nodes is cut")
    attempt = yard.get(f"/runs/{run}/attempts")["items"][0]
    assert attempt["cause"]["class"] == "network", attempt["cause"]
    request.config.stash.setdefault(ROWS, []).append(row)
    figures = request.config.stash.setdefault(FIGURES, [])
    figures.append(Figure("cut network: named", named_s, goal_s=10.0))
    figures.append(Figure("cut network: its run is started again", ended_s, goal_s=10.0))
    assert row.is_clean


def test_a_short_cut_between_two_nodes_costs_a_wait_and_no_attempt(
    house: House, scene: Scene, request: pytest.FixtureRequest
) -> None:
    _, yard, _, cables = house
    run = scene.submit(steps=600, **gang(2))
    scene.wait_for_a_step(run, 60, 200)
    one, other = placed_on(yard, run)
    cables.cut(one, other)
    time.sleep(2 + 2.5 * scene.choice.random())
    cables.heal(one, other)
    scene.check_status(run)
    row = scene.finish("network between two nodes is cut for seconds")
    request.config.stash.setdefault(ROWS, []).append(row)
    assert row.is_clean and row.attempts == 1


def test_a_node_without_power_is_lost_though_no_connection_to_it_was_closed(
    house: House, scene: Scene, request: pytest.FixtureRequest
) -> None:
    """The other rank waits for bytes; only the silence of both says that the node is gone."""
    _, yard, nodes, cables = house
    run = scene.submit(steps=600, **gang(2))
    scene.wait_for_a_step(run, 60, 200)
    lost = placed_on(yard, run)[scene.choice.randrange(2)]
    cables.unplug(lost)
    died_at = time.time()
    nodes.kill(lost)
    try:
        wait_until(lambda: events(yard, run, "restarting"), "the run is started again", patience_s=60)
        restarting = events(yard, run, "restarting")[0]
        assert restarting["sentence"].startswith(f"Node {lost} is out of contact"), restarting["sentence"]
        scene.wait_until(run, "recovered")
        recovered = events(yard, run, "recovered")[0]
        row = scene.finish("node loses its power")
    finally:
        cables.plug_in(lost)
        nodes.start(lost, prefix=cables.prefix(lost), address=cables.address(lost))
    attempt = yard.get(f"/runs/{run}/attempts")["items"][0]
    assert (attempt["cause"]["class"], attempt["cause"]["node"]) == ("node-lost", lost), attempt["cause"]
    request.config.stash.setdefault(ROWS, []).append(row)
    figures = request.config.stash.setdefault(FIGURES, [])
    figures.append(Figure("power lost: death to certainty", scene.seconds_of(restarting["at"]) - died_at))
    figures.append(Figure("power lost: certainty to the next new step", recovered["data"]["seconds"], goal_s=10.0))
    assert row.is_clean and row.attempts == 2


def test_a_node_cut_off_from_the_server_for_less_than_the_lease_loses_nothing(
    house: House, scene: Scene, request: pytest.FixtureRequest
) -> None:
    _, yard, _, cables = house
    run = scene.submit(steps=3_000, **gang(1), restarts={"lease": "30s"})
    scene.wait_for_a_step(run, 60, 200)
    (name,) = placed_on(yard, run)
    cables.cut_from_server(name)
    wait_until(lambda: yard.run(run)["status"] == "RECOVERING", "the silence is shown", patience_s=15)
    time.sleep(scene.choice.random() * 3)
    cables.heal_to_server(name)
    scene.check_status(run)
    row = scene.finish("node cut off for less than its lease")
    request.config.stash.setdefault(ROWS, []).append(row)
    assert row.is_clean and row.attempts == 1


def test_a_node_cut_off_from_the_server_for_longer_ends_its_ranks_before_another_takes_over(
    house: House, scene: Scene, request: pytest.FixtureRequest
) -> None:
    _, yard, _, cables = house
    run = scene.submit(steps=3_000, **gang(1), **LEASE)
    scene.wait_for_a_step(run, 60, 200)
    (name,) = placed_on(yard, run)
    (report,) = scene.reports(run)
    ranks = [int(rank["pid"]) for rank in report["ranks"]]
    cables.cut_from_server(name)
    try:
        wait_until(lambda: not any(map(psutil.pid_exists, ranks)), "its ranks have ended", patience_s=30)
        assert yard.run(run)["attempt"] == 1, "no second attempt has begun by then"
        wait_until(lambda: yard.run(run)["attempt"] == 2, "it is placed again", patience_s=30)
        assert placed_on(yard, run) != [name]
    finally:
        cables.heal_to_server(name)
    row = scene.finish("node cut off for longer than its lease")
    request.config.stash.setdefault(ROWS, []).append(row)
    assert row.is_clean and row.attempts == 2
