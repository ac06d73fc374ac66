"""`trainyard checkpoints` and `continue`: what a run can be gone on from, and going on."""

from __future__ import annotations

import json

import pytest

from runs import actions
from runs.models import Run
from tests.cast import Cast, spec
from tests.checkpoints import saved, tell
from tests.trainyard.command import Trainyard

pytestmark = pytest.mark.usefixtures("valkey")


def test_checkpoints_are_listed_and_gone_on_from(trainyard: Trainyard, cast: Cast) -> None:
    run = actions.submit_run(actor=cast.mate, document=spec())
    assert trainyard("checkpoints", run.pk).err == (
        "No checkpoint is known so far. A recipe takes one every `checkpoint.every_steps` steps, and a script reports "
        "its own with `run.note`.\n"
    )
    assert trainyard("continue", run.pk).err == f"Run {run.name} has no checkpoint to go on from.\n"
    Run.objects.filter(pk=run.pk).update(fence=1)
    tell(run, saved(100), saved(200))
    ended = trainyard("checkpoints", run.pk)
    titles, newest, oldest = [line.split() for line in ended.out.splitlines()]
    assert titles[:4] == ["step", "state", "size", "attempt"]
    assert newest[:4] == ["200", "valid", "4.0", "KiB"] and oldest[0] == "100"
    assert [one["step"] for one in json.loads(trainyard("checkpoints", run.pk, "--json").out)["items"]] == [200, 100]
    made = trainyard("continue", run.pk, "--step", "100", "--set", "train.steps=150").out.strip()
    after = Run.objects.get(pk=made)
    assert (after.parent, after.spec["checkpoint"]["restore"], after.spec["train"]["steps"]) == (
        run,
        f"{run.pk}@100",
        150,
    )
    ended = trainyard("continue", run.pk, "--step", "150")
    assert ended.code == 2 and "it has 200, 100" in ended.err
