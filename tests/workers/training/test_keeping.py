"""What changes in mid-training: the same as stopping there and going on from the checkpoint another way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.workers.training.checkpoints.yard import Yard, after, states
from tests.workers.training.ranks import series, tiny_spec, train_on
from trainyard.spec.sections.changes import SettingsChange
from trainyard.spec.sections.train import Train
from workers.training.keeping import settings_at

EVERY_4 = {"every_steps": 4, "keep": 9}
FIRST = {"learning_rate": 0.002, "weight_decay": 0.05, "batch_size": 8}
SECOND = {"learning_rate": 0.006, "weight_decay": 0.3, "batch_size": 16, "gradient_clip": 0.5}


@pytest.mark.parametrize("optimizer", ["adamw", pytest.param("muon", marks=pytest.mark.extended)])
def test_a_run_with_changes_equals_runs_that_go_on_from_each_other_bit_for_bit(optimizer: str, tmp_path: Path) -> None:
    first, second = Yard(tmp_path / "first"), Yard(tmp_path / "second", run="372bay33uw")
    alike: dict[str, Any] = {"steps": 12, "optimizer": optimizer, "checkpoint": EVERY_4}
    parent = first.train(2, **alike, **FIRST)[0]
    at_4 = [one for one in first.offers() if one["step"] == 4]
    child = second.train(2, restore=at_4, **alike, **SECOND)[0]
    assert states(child)[0] == ("restored", 4)
    changes = [{"behind": 4, **SECOND}]
    replay = Yard(tmp_path / "replay", run="472bay33uw")
    whole = replay.train(2, **alike, **FIRST, changes=changes)[0]
    for name in ("train/loss", "train/gradient_norm", "train/learning_rate", "val/loss"):
        early = {step: value for step, value in series(parent, name).items() if step is not None and step <= 4}
        assert {**early, **after(child, name, 4)} == series(whole, name), name
    assert after(parent, "train/loss", 5) != after(child, "train/loss", 5)
    # A restart between two changes, and one behind the last, go on with what holds there.
    for kept in replay.offers()[1:]:
        again = replay.train(2, restore=[kept], **alike, **FIRST, changes=changes)[0]
        assert after(again, "train/loss", 0) == after(whole, "train/loss", kept["step"])


def test_a_run_without_changes_is_as_it_was() -> None:
    plain = train_on(1, tiny_spec(steps=4))[0]
    none = train_on(1, tiny_spec(steps=4, changes=[]))[0]
    assert series(plain, "train/loss") == series(none, "train/loss")


def test_settings_are_those_of_all_changes_before_the_step() -> None:
    given = Train(learning_rate=0.1, batch_size=8)
    changes = [SettingsChange(behind=3, learning_rate=0.2), SettingsChange(behind=5, batch_size=16)]
    assert settings_at(given, changes, 3) is given
    found = settings_at(given, changes, 4)
    assert (found.learning_rate, found.batch_size, found.weight_decay) == (0.2, 8, given.weight_decay)
    assert (settings_at(given, changes, 6).learning_rate, settings_at(given, changes, 6).batch_size) == (0.2, 16)
