"""Values that break a rule, and going back without a batch, through every process that there is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.up_process import ROOT
from tests.whole.conftest import NUM_STEPS, Losses, two_ranks
from tests.whole.runs import Yard, points, until
from tests.whole.test_recovery import said, script, victim

DIVERGES = """
import time, trainyard

run = trainyard.init()
for step in range(1, 120):
    value = float("nan") if step == 100 else 50.0 if step == 60 else 2.0
    run.log({"train/loss": value}, step=step)
    time.sleep(0.02)
time.sleep(20)
"""


@pytest.mark.timeout(300)
def test_a_script_whose_loss_is_no_number_is_noticed_and_stopped_by_its_rule(yard: Yard, tmp_path: Path) -> None:
    rules = [{"metric": "train/loss", "spike": 8.0, "nan": False}, {"metric": "train/loss", "action": "stop"}]
    run = script(yard, tmp_path, DIVERGES, watch=rules)
    until(lambda: len(said(yard, run, "metric-alarm")) == 2)
    spike, nan = said(yard, run, "metric-alarm")
    assert spike.startswith("train/loss rose to 50 at step 60: ") and nan == "train/loss is not a number at step 100."
    ended = yard.wait_for_end(run)
    assert ended["status"] == "CANCELLED" and ended["reason"]["sentence"].startswith("Stopped by its rule on a metric")
    assert [one["first_step"] for one in yard.get(f"/runs/{run}/alarms")["items"]] == [60, 100]


@pytest.mark.extended
@pytest.mark.timeout(600)
def test_two_runs_that_are_sent_back_at_different_moments_have_the_same_losses(yard: Yard, undisturbed: Losses) -> None:
    """One from the terminal, one over REST; a later restart leaves the batches out, too."""
    runs: list[str] = []
    for name, step in (("sooner", 130), ("later", 200)):
        run = yard.submit(two_ranks(name, checkpoint={"every_steps": 20, "keep": 100}))
        runs.append(run)
        yard.wait_for_step(run, step)
        os.kill(victim(yard, run, "rank 0"), signal.SIGSTOP)  # else it could end before it is sent back
        if step == 130:
            environment = {**os.environ, "TRAINYARD_URL": yard.up.url, "TRAINYARD_TOKEN": yard.up.token}
            command = [sys.executable, "-m", "trainyard", "rewind", run, "--to", "105", "--skip", "110:119"]
            done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            assert "It goes on from the checkpoint of step 100." in done.stderr + done.stdout
        else:
            yard.post(f"/runs/{run}/rewind", {"to": 105, "first": 110, "last": 119})
        until(lambda run=run: yard.run(run)["attempt"] == 2)
    for run in runs:
        ended = yard.wait_for_end(run)
        assert (ended["status"], ended["step"], ended["attempt"]) == ("SUCCEEDED", NUM_STEPS, 2), ended["reason"]
        assert any("step 100 of attempt 1" in one for one in said(yard, run, "restored"))
    sooner, later = (points(yard, run, "train/loss") for run in runs)
    assert sooner == later != undisturbed["train/loss"]
    assert yard.run(runs[0])["rewinds"][0]["to_step"] == 105
