"""Compiled and checkpointed blocks under shards are the same mathematics; under data parallel ``make test`` says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workers.training import ranks
from tests.workers.training.test_compilation import check_compiled


@pytest.mark.slow
def test_compiled_and_checkpointed_blocks_in_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "TIMEOUT_S", 240)
    check_compiled("shard", tmp_path)
