"""What the tests of the whole Trainyard share: one training that nothing happened to, for those to compare with."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conftest import tiny
from tests.up_process import Up
from tests.whole.runs import Document, Yard, points

NUM_STEPS = 400
Losses = dict[str, dict[int, float]]


def two_ranks(name: str, **sections: Any) -> Document:
    """A spec whose losses are those of ``undisturbed``, whatever becomes of its processes."""
    spec: Document = tiny(name, steps=NUM_STEPS, validate_every_steps=100)
    return spec | {"resources": {"nodes": 2}} | sections


@pytest.fixture(scope="session")
def undisturbed(running_trainyard: Up) -> Losses:
    """The losses of ``two_ranks`` by step, for ``train/loss`` and ``val/loss``."""
    with Yard(running_trainyard) as yard:
        run = yard.submit(two_ranks("undisturbed"))
        assert yard.wait_for_end(run)["status"] == "SUCCEEDED"
        return {name: points(yard, run, name) for name in ("train/loss", "val/loss")}
