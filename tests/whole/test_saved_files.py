"""A script outside of Trainyard keeps a large file with its run, through all that a real server puts before a view."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.up_process import ROOT
from tests.whole.runs import Yard

SCRIPT = """
import os, trainyard
run = trainyard.init("keeper")
run.log({"loss": 1.0})
open("model.pt", "wb").write(os.urandom(5_000_000))
run.save("model.pt")
run.finish()
"""


@pytest.mark.slow
def test_a_file_of_five_megabytes_is_kept_whole(yard: Yard, tmp_path: Path) -> None:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("TRAINYARD_")},
        "PYTHONPATH": str(ROOT), "TRAINYARD_URL": yard.up.url, "TRAINYARD_TOKEN": yard.up.token,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "everything was sent" in done.stderr, done.stderr
    [run] = [one for one in yard.get("/runs", limit=200)["items"] if one["name"] == "keeper"]
    assert run["status"] == "SUCCEEDED"
    stored = yard.http.get(f"/runs/{run['id']}/files/model.pt")
    assert stored.content == (tmp_path / "model.pt").read_bytes()
