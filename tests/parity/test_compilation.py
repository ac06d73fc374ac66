"""Compiled and checkpointed blocks are the same mathematics, down to the machine's code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workers.training.strategies.test_compilation import check_compiled


@pytest.mark.slow
@pytest.mark.timeout(1800)  # each rank compiles four graphs: 20 s where nothing else runs, minutes where much does
@pytest.mark.parametrize("axis", ["data", "shard"])
def test_compiled_and_checkpointed_blocks(axis: str, tmp_path: Path) -> None:
    check_compiled(axis, tmp_path)
