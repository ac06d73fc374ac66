"""A node of an earlier commit beside the newest server, as in an upgrade: it trains as any other, or is refused in
words."""

from __future__ import annotations

import io
import os
import random
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.own_nodes import OwnNodes, in_contact, placed_on, trainyard_with_own_nodes
from tests.chaos.scene import ROWS, Row, Scene
from tests.chaos.test_lost_nodes import gang
from tests.up_process import ROOT, Up, wait_until
from tests.whole.runs import Yard

pytestmark = [pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(600)]
PREVIOUS = os.environ.get("CHAOS_PREVIOUS", "HEAD~100")  # the commit that the older node is of
PARTS = ("workers", "trainyard", "pyproject.toml")
House = tuple[Up, Yard, OwnNodes]


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the node's code as it was. Skips where this is no clone with that commit."""
    archive = subprocess.run(["git", "archive", PREVIOUS, *PARTS], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode != 0:
        pytest.skip(f"there is no commit {PREVIOUS} here: {archive.stderr.decode().strip()}")
    folder = tmp_path_factory.mktemp("previous")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    folder.chmod(0o755)  # ranks may be other users
    return folder


@pytest.fixture(scope="module")
def house(previous: Path) -> Iterator[House]:
    with trainyard_with_own_nodes() as (up, yard, nodes):
        nodes.start("older", folder=previous)
        wait_until(lambda: "older" in in_contact(yard) or nodes.has_ended("older"), "it is in contact, or has ended")
        if nodes.has_ended("older"):
            assert "refused this node" in nodes.log("older"), nodes.log("older")
        else:
            assert nodes.folder_of("older") == previous
        yield up, yard, nodes


def test_a_node_of_an_earlier_commit_trains_and_recovers_or_is_refused_in_words(
    house: House, request: pytest.FixtureRequest
) -> None:
    up, yard, nodes = house
    if nodes.has_ended("older"):
        return  # refused in words, as the fixture saw
    train_and_recover(up, yard, request, 1)
    nodes.start_all("newest")
    train_and_recover(up, yard, request, 2)


def train_and_recover(up: Up, yard: Yard, request: pytest.FixtureRequest, nodes_of_run: int) -> None:
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(10_000)))
    print(f"\nCHAOS_SEED={seed}")
    scene = Scene(up, yard, seed)
    run = scene.submit(**gang(nodes_of_run))
    scene.wait_for_a_step(run)
    assert "older" in placed_on(yard, run)
    rank = scene.kill_of_attempt(run, scene.any_rank)
    scene.check_status(run)
    scene.check_blame(run, "killed", rank=rank)
    row: Row = scene.finish(f"node of {PREVIOUS}, {nodes_of_run} in all")
    request.config.stash.setdefault(ROWS, []).append(row)
    assert row.is_clean and row.attempts == 2
