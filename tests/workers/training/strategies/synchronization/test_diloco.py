from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.workers.training.ranks import series, train_on
from tests.workers.training.strategies.synchronization.test_local_sgd import spec, tell_weights, weights
from workers.training.optimizing.numerics import Precision
from workers.training.strategies.synchronization.diloco import DiLoCo
from workers.training.strategies.synchronization.protocol import OwnLoss


def drop_the_outer_step() -> None:
    """Go on from the average."""
    from workers.training.strategies.synchronization.diloco import DiLoCo
    from workers.training.strategies.synchronization.local_sgd import LocalSGD

    DiLoCo._keep, DiLoCo._mean_as_kept = LocalSGD._keep, LocalSGD._mean_as_kept  # type: ignore[method-assign]


def diloco(parameter: nn.Parameter, *, learning_rate: float, momentum: float) -> DiLoCo:
    inner = torch.optim.SGD([parameter], lr=0.0)
    return DiLoCo(
        inner,
        Precision("fp32", torch.device("cpu")),
        OwnLoss(1),
        every_steps=1,
        world_size=1,
        learning_rate=learning_rate,
        momentum=momentum,
    )


def one_round(training: DiLoCo, parameter: nn.Parameter, moved: torch.Tensor, step: int) -> None:
    training.begin(step)
    with torch.no_grad():
        parameter.add_(moved)
    training._mean.take([parameter])  # what the average of one rank comes to
    training._keep().give([parameter])


def test_the_outer_step_is_that_of_torchs_nesterov() -> None:
    moves = torch.randn(5, 7, generator=torch.Generator().manual_seed(1))
    parameter, reference = nn.Parameter(torch.ones(7)), nn.Parameter(torch.ones(7))
    training = diloco(parameter, learning_rate=0.7, momentum=0.9)
    outer = torch.optim.SGD([reference], lr=0.7, momentum=0.9, nesterov=True)
    for step, moved in enumerate(moves, start=1):
        one_round(training, parameter, moved, step)
        reference.grad = -moved
        outer.step()
        torch.testing.assert_close(parameter, reference)


def test_a_checkpoints_velocity_goes_on_where_it_was() -> None:
    moves = torch.randn(4, 7, generator=torch.Generator().manual_seed(2))
    parameter = nn.Parameter(torch.ones(7))
    training = diloco(parameter, learning_rate=0.7, momentum=0.9)
    for step, moved in enumerate(moves[:2], start=1):
        one_round(training, parameter, moved, step)
    assert training.is_agreed
    again = nn.Parameter(parameter.detach().clone())
    resumed = diloco(again, learning_rate=0.7, momentum=0.9)
    resumed.load({name: tensor.clone() for name, tensor in training.state().items()})
    anew = nn.Parameter(parameter.detach().clone())
    without = diloco(anew, learning_rate=0.7, momentum=0.9)
    without.load({})  # what another kind has kept
    for step, moved in enumerate(moves[2:], start=3):
        one_round(training, parameter, moved, step)
        one_round(resumed, again, moved, step)
        one_round(without, anew, moved, step)
    assert torch.equal(parameter, again)
    assert not torch.allclose(parameter, anew)


def test_with_a_rate_of_one_and_no_momentum_it_is_local_sgd() -> None:
    plain = {"outer_learning_rate": 1.0, "outer_momentum": 0.0}
    local = train_on(2, spec())[0]
    outer = train_on(2, spec("diloco", synchronization=plain), setup=tell_weights)
    assert series(outer[0], "train/loss") == pytest.approx(series(local, "train/loss"), rel=1e-5)
    assert weights(outer[0]) == weights(outer[1]) != {}


def test_the_first_outer_step_moves_by_what_momentum_makes_of_the_average() -> None:
    """0.7 x (1 + 0.9) of the change, and so not where the average is."""
    outer, average = (
        series(train_on(2, spec("diloco"), setup=setup)[0], "train/loss") for setup in (None, drop_the_outer_step)
    )
    assert [outer[step] for step in range(1, 5)] == [average[step] for step in range(1, 5)]
    assert all(outer[step] != average[step] for step in range(5, 11))
