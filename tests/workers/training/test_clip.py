from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.workers.training.ranks import series, tiny_spec, train_on
from workers.training.loop import clip

TOLERANCE = 1e-5  # relative; measured 3e-7


def parameters(*sizes: tuple[int, ...]) -> list[torch.nn.Parameter]:
    """Return parameters of these sizes with gradients counting from 1."""
    made, count = [], 1
    for size in sizes:
        parameter = torch.nn.Parameter(torch.zeros(size))
        parameter.grad = torch.arange(count, count + parameter.numel(), dtype=torch.float32).view(size)
        count += parameter.numel()
        made.append(parameter)
    return made


def test_gradients_are_scaled_to_the_limit_as_torch_does() -> None:
    ours, theirs = parameters((3, 2), (5,)), parameters((3, 2), (5,))
    norm = clip(ours, 2.0)
    assert norm.item() == pytest.approx(torch.nn.utils.clip_grad_norm_(theirs, 2.0).item())
    for one, other in zip(ours, theirs, strict=True):
        assert one.grad is not None and other.grad is not None
        assert torch.equal(one.grad, other.grad)


@pytest.mark.parametrize("limit", [0.0, 1e9])
def test_gradients_below_the_limit_or_without_one_are_left_alone(limit: float) -> None:
    ours, before = parameters((3, 2)), parameters((3, 2))
    assert clip(ours, limit).item() == pytest.approx(91**0.5)
    assert ours[0].grad is not None and before[0].grad is not None
    assert torch.equal(ours[0].grad, before[0].grad)


def test_a_parameter_without_a_gradient_counts_for_nothing() -> None:
    ours = [*parameters((3, 2)), torch.nn.Parameter(torch.ones(7))]
    assert clip(ours, 1.0).item() == pytest.approx(91**0.5)


def test_gradients_of_zero_are_measured_and_not_divided_by() -> None:
    still = torch.nn.Parameter(torch.zeros(3))
    still.grad = torch.zeros(3)
    assert clip([still], 1.0).item() == 0.0
    assert torch.equal(still.grad, torch.zeros(3))


@pytest.mark.parametrize(
    ("parallel", "world"),
    [({"shard": 2}, 2), ({"tensor": 2}, 2), ({"pipeline": {"stages": 2}}, 2)],
    ids=["shard", "tensor", "pipeline"],
)
def test_two_ranks_find_the_norm_that_one_finds(parallel: dict[str, Any], world: int) -> None:
    """And clip by it: momentum would follow a gradient of another size, as Adam would not."""
    changes = {"optimizer": "sgd", "learning_rate": 0.1, "steps": 4, "gradient_clip": 0.25}
    (alone,) = train_on(1, tiny_spec(**changes))
    spread = train_on(world, tiny_spec(world=world, parallel=parallel, **changes))
    norms = series(alone, "train/gradient_norm")
    assert min(norms.values()) > 0.25
    assert series(spread[0], "train/gradient_norm") == pytest.approx(norms, rel=TOLERANCE)
    assert series(spread[0], "train/loss") == pytest.approx(series(alone, "train/loss"), rel=TOLERANCE)


def test_every_kind_of_gradient_is_counted_once() -> None:
    """The ranks of two axes hold one plain tensor, and DTensors over one of them or both: whole, in pieces, pieces of
    pieces, and sums that are still to be made."""
    spec = tiny_spec(world=4, parallel={"shard": 2, "tensor": 2})
    for points in train_on(4, spec, setup=measure_a_mixture):
        assert series(points, "norm")[0] == pytest.approx(series(points, "expected")[0], rel=1e-6)
        assert series(points, "scaled")[0] == pytest.approx(1.0, rel=1e-5)


def measure_a_mixture() -> None:
    """Clip gradients of all kinds to a norm of 1, on the mesh of the training, in place of training."""
    from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard

    from workers.training import main

    def spread(mesh: Any, placements: list[Placement], whole: torch.Tensor, local: torch.Tensor) -> torch.nn.Parameter:
        parameter = torch.nn.Parameter(
            DTensor.from_local(
                torch.zeros_like(local),
                mesh,
                [Replicate() if p.is_partial() else p for p in placements],
                run_check=False,
            )
        )
        parameter.grad = DTensor.from_local(local, mesh, placements, run_check=False)  # type: ignore[assignment]
        wholes.append(whole)
        return parameter

    wholes: list[torch.Tensor] = []

    def run_loop(training: Any, recorder: Any, *rest: Any) -> None:
        mesh = training.device_mesh
        both, shard, tensor = mesh["shard", "tensor"], mesh["shard"], mesh["tensor"]
        row, column = shard.get_local_rank(), tensor.get_local_rank()
        generator = torch.Generator().manual_seed(1)
        plain, a, b, c, d, e = (torch.randn(8, 4, generator=generator) for _ in range(6))
        one = torch.nn.Parameter(torch.zeros(8, 4))
        one.grad = plain.clone()
        wholes.append(plain)
        kinds = [
            one,
            spread(tensor, [Shard(1)], a, a.chunk(2, 1)[column].clone()),
            spread(both, [Replicate(), Shard(0)], b, b.chunk(2)[column].clone()),
            spread(both, [Shard(0), Shard(1)], c, c.chunk(2)[row].chunk(2, 1)[column].clone()),
            spread(both, [Replicate(), Replicate()], d, d.clone()),
            spread(tensor, [Partial()], e, e * (0.25 if column else 0.75)),
        ]
        expected = torch.stack(wholes).norm()
        norm = clip(kinds, 1.0, mesh)
        again = clip(kinds, 0.0, mesh)
        recorder.log({"norm": norm.item(), "expected": expected.item(), "scaled": again.item()}, step=0)

    main.run_loop = run_loop
