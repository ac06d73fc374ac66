"""Accelerate's own Accelerator starts the tracker, and what it logs is in the spool."""

from __future__ import annotations

from pathlib import Path

from accelerate import Accelerator

from tests.trainyard.sdk.test_description import descriptions
from tests.trainyard.spooled import points, producers
from trainyard.integrations.accelerate import TrainyardTracker


def test_what_accelerate_logs_is_in_the_run(spool: Path) -> None:
    accelerator = Accelerator(log_with=TrainyardTracker(name="with accelerate"), cpu=True)
    accelerator.init_trackers("a project", config={"lr": 0.5})
    for step in range(3):
        accelerator.log({"loss": 1 / (step + 1)}, step=step)
    run = accelerator.get_tracker("trainyard", unwrap=True)
    assert run.name == "with accelerate"
    accelerator.end_training()
    [frames] = producers(spool)
    assert points(frames) == {("loss", ()): [(step, 1 / (step + 1)) for step in range(3)]}
    assert descriptions(spool)[-1].config == {"lr": 0.5}
    assert run.is_finished
