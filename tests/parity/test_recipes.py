"""Every way to train goes with every recipe, and is one process's mathematics in each."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workers.training.parity import check_parity, distance
from tests.workers.training.recipes.tasks import QUANTITY, RESNET, TABLE, VIT, with_layers

LIMIT = 1e-5  # relative, of each of 20 losses and of first gradients
GRADIENT_LIMIT = 2e-5
BATCH = {"batch_size": 24, "gradient_clip": 0.25}
GROUPED = {"layers": 4, "width": 16, "heads": 4, "kv_heads": 2, "context": 16}
STAGES = {"pipeline": {"stages": 2}}
DEEP = {"resnet": with_layers(RESNET, 5), "vit": with_layers(VIT, 4), "table": with_layers(TABLE, 4)}


@pytest.mark.parametrize(
    ("name", "world", "degrees"),
    [
        ("resnet", 3, {}),
        ("resnet", 2, {"shard": 2}),
        ("resnet", 4, {"shard": 2, **STAGES}),
        ("vit", 2, {"shard": 2}),
        ("vit", 4, {"tensor": 4}),
        ("vit", 4, {"shard": 2, "tensor": 2}),
        ("vit", 4, {"tensor": 2, **STAGES}),
        ("table", 2, {"shard": 2}),
        ("table", 4, {"tensor": 2, **STAGES}),
        ("table", 4, {"data": 2, "tensor": 2}),
    ],
    ids=str,
)
def test_ranks_learn_what_one_process_learns(name: str, world: int, degrees: dict[str, Any]) -> None:
    check_parity(world, degrees, limit=LIMIT, gradient_limit=GRADIENT_LIMIT, task=DEEP[name], **BATCH)


@pytest.mark.parametrize("name", DEEP)
@pytest.mark.parametrize("schedule", ["interleaved", "zero-bubble", "layer-wise"])
def test_stages_of_every_schedule_take_what_each_part_gives(name: str, schedule: str) -> None:
    degrees = {"pipeline": {"stages": 2, "schedule": schedule}}
    check_parity(2, degrees, limit=LIMIT, gradient_limit=GRADIENT_LIMIT, task=DEEP[name], **BATCH)


@pytest.mark.parametrize(("world", "degrees"), [(2, {"tensor": 2}), (4, {"tensor": 2, **STAGES})], ids=str)
def test_grouped_queries_learn_what_one_process_learns(world: int, degrees: dict[str, Any]) -> None:
    check_parity(world, degrees, limit=LIMIT, gradient_limit=GRADIENT_LIMIT, model=GROUPED, **BATCH)


@pytest.mark.parametrize("degrees", [{"tensor": 2}, {"data": 2}], ids=str)
def test_a_quantity_is_learnt_as_one_process_learns_it(degrees: dict[str, int]) -> None:
    check_parity(2, degrees, limit=LIMIT, gradient_limit=GRADIENT_LIMIT, task=QUANTITY, **BATCH)


@pytest.mark.parametrize("kind", ["selective", "full"])
def test_convolutions_may_be_computed_again_for_backward(kind: str) -> None:
    apart = {"activation_checkpointing": kind, "accumulate": 2}
    task = DEEP["resnet"]
    check_parity(2, {"shard": 2}, limit=LIMIT, gradient_limit=GRADIENT_LIMIT, task=task, apart=apart, **BATCH)


def compute_what_is_alike_from_other_rows() -> None:
    """Let each rank's own numbers into what all are to compute alike."""
    import torch.distributed as dist

    from workers.training.recipes import parts

    plain = parts._take_whole

    def shifted(module: Any, inputs: Any, device_mesh: Any) -> Any:
        return plain(module, tuple(one + 0.01 * dist.get_rank() for one in inputs), device_mesh)

    parts._take_whole = shifted


@pytest.mark.parametrize("name", ["vit", "table"])
def test_it_goes_red_when_ranks_compute_from_other_numbers(name: str) -> None:
    left_out = compute_what_is_alike_from_other_rows
    found = distance(2, {"tensor": 2}, setup=left_out, task=DEEP[name], **BATCH)
    assert found.loss > 10 * LIMIT and found.gradient > 100 * LIMIT, found
