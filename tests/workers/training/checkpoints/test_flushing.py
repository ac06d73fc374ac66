"""A checkpoint counts only once what was logged before it is in the spool: nobody logs those steps again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.workers.training.ranks import Recorder
from workers.training.checkpoints import saving
from workers.training.checkpoints.saving import AttemptFacts, Saver


class Flushed(Recorder):
    def __init__(self, order: list[str]) -> None:
        super().__init__()
        self.order = order

    def flush(self) -> bool:
        self.order.append("flush")
        return True


def test_what_was_logged_is_kept_before_the_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(saving, "write_part", lambda *_: order.append("part"))
    model: Any = {}
    facts = AttemptFacts("run", 1, tmp_path, 3, 1, (0, 1), model, 2, {}, torch.device("cpu"))  # of rank 1
    saver = Saver(facts, Flushed(order))
    saver.save(10, lambda: [], {})
    assert saver.wait(30) and order == ["flush", "part"]
