"""Everything that a script leaves on two nodes reaches people: through every process that there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import packed
from tests.whole.runs import Yard, until

SCRIPT = """
import os, pathlib, sys, time
output, rank = pathlib.Path(sys.argv[1]), os.environ["RANK"]
(output / "log.txt").write_text(f"rank {rank}")
(output / "early.txt").write_text("early")
os.utime(output / "early.txt", (time.time() - 60,) * 2)
if rank == "0":
    (output / "big.bin").write_bytes(bytes(range(256)) * 80_000)
    (output / "latest.bin").symlink_to("big.bin")
    (output / "away").symlink_to("/etc/hostname")
snapshot = pathlib.Path("snapshot.txt")
first = int(snapshot.read_text()) if snapshot.exists() else 0
print("begins at", first, flush=True)
snapshot.write_text(str(first + 1))
deadline = time.monotonic() + 60
while not pathlib.Path(sys.argv[2]).exists() and time.monotonic() < deadline:
    time.sleep(0.1)
sys.exit(1 if first == 0 else 0)
"""


@pytest.mark.extended
@pytest.mark.timeout(300)
def test_what_a_script_leaves_comes_from_every_node_and_a_restart_finds_its_snapshot(
    yard: Yard, tmp_path: Path
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(SCRIPT)
    stored = yard.http.post("/bundles", content=packed(tmp_path / "code"))
    assert stored.status_code == 201, stored.text
    task = {
        "script": "train.py",
        "code": {"sha256": stored.json()["sha256"]},
        "arguments": ["${TRAINYARD_OUTPUT}", "${TMPDIR}/gate"],
    }
    run = yard.submit({"name": "leaver", "resources": {"nodes": 2}, "task": task})
    until(lambda: "early.txt" in paths(yard, run))
    found = yard.get(f"/runs/{run}")
    assert found["status"] == "RUNNING", found["reason"]
    open_gates(yard, run)
    assert yard.wait_for_end(run)["status"] == "FAILED"
    until(lambda: {"big.bin", "latest.bin", "log.txt", "node-1/log.txt"} <= paths(yard, run))
    big = bytes(range(256)) * 80_000
    assert yard.http.get(f"/runs/{run}/files/big.bin").content == big
    assert yard.http.get(f"/runs/{run}/files/latest.bin").content == big
    assert yard.http.get(f"/runs/{run}/files/node-1/log.txt").text == "rank 1"
    assert "away" not in paths(yard, run)
    until(lambda: len(left(yard, run)) == 2)
    assert {one["files"][0]["path"] for one in left(yard, run)} == {"snapshot.txt"}
    why = "away (It is a link that leads out of the folder)"
    until(lambda: any(why in one["sentence"] for one in yard.get(f"/runs/{run}")["troubles"]))

    yard.post(f"/runs/{run}/restart")
    until(lambda: yard.get(f"/runs/{run}")["status"] == "RUNNING")
    open_gates(yard, run)
    assert yard.wait_for_end(run)["status"] == "SUCCEEDED"
    lines = [line["text"] for line in yard.get(f"/runs/{run}/logs", limit=100)["items"]]
    assert lines.count("begins at 0") == 2 and lines.count("begins at 1") == 2, lines
    until(lambda: [one["attempt"] for one in left(yard, run) if one["files"]] == [2, 2])
    yard.post(f"/runs/{run}/leftovers", {"decision": "upload"})
    until(lambda: {"working-folder/snapshot.txt", "node-1/working-folder/snapshot.txt"} <= paths(yard, run))


def open_gates(yard: Yard, run: str) -> None:
    """Let the ranks go on: only they and their node see the attempt's folder."""
    newest = max(yard.get(f"/runs/{run}/attempts")["items"], key=lambda one: one["number"])["id"]
    for folder in (yard.up.home / "nodes").glob(f"*/attempts/{newest}/tmp"):
        (folder / "gate").touch()


def paths(yard: Yard, run: str) -> set[str]:
    return {one["path"] for one in yard.get(f"/runs/{run}/files")["items"]}


def left(yard: Yard, run: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yard.get(f"/runs/{run}/files")["left"]
    return found
