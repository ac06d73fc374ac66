"""A second home on this machine joins over REST as another machine would, and a run spans both."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.up.parent_death import tethered
from tests.servers import short_folder
from tests.up_process import OURS, ROOT, Up, wait_until
from tests.whole.runs import Yard, example


def start_node(*words: str) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    command = tethered([sys.executable, "-m", "trainyard", "node", *words])
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL)


@pytest.fixture
def far_home() -> Iterator[Path]:
    with short_folder("ty-far-") as folder:
        yield folder


@pytest.mark.slow
@pytest.mark.extended
def test_a_run_spans_the_nodes_of_two_homes(running_trainyard: Up, yard: Yard, far_home: Path) -> None:
    cluster = next(one for one in yard.get("/clusters")["items"] if one["name"] == "local")
    token = yard.post(f"/clusters/{cluster['id']}/join-tokens")["token"]
    worker = start_node("--join", token, "--server", running_trainyard.url, "--home", str(far_home), "--name", "far")
    try:
        wait_until(lambda: "far" in online(yard), "the node is in contact", patience_s=60)
        spec = example("tiny-steps", steps=30, batch_size=6, validate_every_steps=30, warmup_steps=1)
        spec["resources"]["nodes"] = 3
        run_id = yard.submit(spec)
        run = yard.wait_for_end(run_id)
        assert run["status"] == "SUCCEEDED", run["reason"]
        assert set(yard.steps(run_id, "rank/memory_bytes")) == {f"[('rank', '{rank}')]" for rank in range(3)}
        placed = yard.get(f"/runs/{run_id}/attempts")["items"][0]
        assert "far" in str(placed)
    finally:
        worker.terminate()
        assert worker.wait(timeout=20) is not None
    far = next(node for node in yard.get("/nodes")["items"] if node["name"] == "far")
    assert yard.http.delete(f"/nodes/{far['id']}").status_code == 204, "a node that holds nothing can be removed"


def test_a_wrong_join_token_is_one_sentence_and_a_non_zero_exit(running_trainyard: Up, far_home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "trainyard", "node", "--join", "wrong", "--server", running_trainyard.url,
         "--home", str(far_home), "--name", "liar"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "token" in done.stderr


def online(yard: Yard) -> set[str]:
    return {node["name"] for node in yard.get("/nodes")["items"] if node["is_in_contact"]}
