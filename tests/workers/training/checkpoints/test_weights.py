from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.workers.training.ranks import tiny_spec, train_on
from workers.training.checkpoints.weights import CONFIG, WEIGHTS

TOLERANCE = 1e-5


def weights_of(folder: Path, world: int = 1, **parallel: Any) -> dict[str, torch.Tensor]:
    """Train two steps in that way and return what is left in the output folder."""
    spec = tiny_spec(world=world, steps=2, parallel=parallel, optimizer="sgd", batch_size=12)
    train_on(world, spec, TRAINYARD_OUTPUT=str(folder))
    return load_file(folder / WEIGHTS)


def assert_same(found: dict[str, torch.Tensor], alone: dict[str, torch.Tensor]) -> None:
    assert found.keys() == alone.keys()
    for name, tensor in alone.items():
        assert found[name].shape == tensor.shape, name
        torch.testing.assert_close(found[name], tensor, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("world", "parallel"),
    [(2, {"tensor": 2}), (2, {"pipeline": {"stages": 2}}), (3, {"shard": 3})],
    ids=["cut by rows and by columns", "on two stages", "in unequal shards"],
)
def test_spread_weights_are_gathered_into_those_of_one_process(
    tmp_path: Path, world: int, parallel: dict[str, Any]
) -> None:
    found = weights_of(tmp_path / "spread", world, **parallel)
    assert_same(found, weights_of(tmp_path / "alone"))
    assert json.loads((tmp_path / "spread" / CONFIG).read_text())["steps"] == 2
    assert sorted(path.name for path in (tmp_path / "spread").iterdir()) == [CONFIG, WEIGHTS]
