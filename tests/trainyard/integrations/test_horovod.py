"""The calls of ``horovod.torch`` by two real ranks, beside the same training by DistributedDataParallel."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from tests.workers.training.ranks import Recorder, series, tiny_spec, train_on
from trainyard.integrations import horovod as hvd
from workers.training.group import RankPlace


def on_two(begin: Callable[..., None]) -> list[dict[int | None, float]]:
    """Return the losses of each rank."""
    return [series(points, "loss") for points in train_on(2, tiny_spec(world=2), begin=begin)]


def join(place: RankPlace) -> None:
    os.environ |= {"RANK": str(place.rank), "LOCAL_RANK": str(place.rank), "WORLD_SIZE": str(place.world_size)}
    hvd.init()
    hvd.init()  # as some scripts do


def model_and_data(rank: int) -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 3))
    torch.manual_seed(rank)
    return model, torch.randn(40, 5), torch.randn(40, 3)


def train(model: torch.nn.Module, optimizer: Any, x: torch.Tensor, y: torch.Tensor, recorder: Recorder) -> None:
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
    for step in range(10):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        schedule.step()
        recorder.log({"loss": loss.item()}, step)


def with_horovod(spec: Any, place: RankPlace, recorder: Recorder, compression: Any = hvd.Compression.none) -> None:
    join(place)
    model, x, y = model_and_data(place.rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), compression, op=hvd.Average)
    assert isinstance(optimizer, torch.optim.SGD)
    train(model, optimizer, x, y, recorder)


def with_horovod_in_fp16(spec: Any, place: RankPlace, recorder: Recorder) -> None:
    with_horovod(spec, place, recorder, hvd.Compression.fp16)


def with_ddp(spec: Any, place: RankPlace, recorder: Recorder, is_fp16: bool = False) -> None:
    join(place)
    model, x, y = model_and_data(place.rank)
    wrapped = DistributedDataParallel(model)
    if is_fp16:
        wrapped.register_comm_hook(None, fp16_compress_hook)
    train(wrapped, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), x, y, recorder)


def with_ddp_in_fp16(spec: Any, place: RankPlace, recorder: Recorder) -> None:
    with_ddp(spec, place, recorder, is_fp16=True)


def with_clipping(spec: Any, place: RankPlace, recorder: Recorder) -> None:
    """Each rank has a gradient of its own; what is clipped is that of all, and it is not reduced a second time."""
    join(place)
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), op=hvd.Sum)
    (weight * torch.tensor([3.0, 4.0]) * (place.rank + 1)).sum().backward()
    optimizer.synchronize()
    recorder.log({"loss": float(torch.nn.utils.clip_grad_norm_([weight], 5.0))}, 0)
    with optimizer.skip_synchronize():
        optimizer.step()
    recorder.log({"loss": weight[1].item()}, 1)


def with_collectives(spec: Any, place: RankPlace, recorder: Recorder) -> None:
    join(place)
    assert (hvd.rank(), hvd.size(), hvd.local_rank()) == (place.rank, 2, place.rank)
    own = torch.full((place.rank + 1, 2), float(place.rank))
    assert hvd.allreduce(torch.tensor(place.rank)).item() == 0, "whole numbers are cut"
    assert hvd.allreduce(torch.tensor([1.0 + place.rank]), name="x").tolist() == [1.5]
    assert hvd.allreduce(own[0], average=False).tolist() == hvd.allreduce(own[0], op=hvd.Sum).tolist() == [1, 1]
    assert own[0].tolist() == [place.rank] * 2, "it is as it was"
    assert hvd.allgather(own).tolist() == [[0, 0], [1, 1], [1, 1]]
    assert hvd.broadcast(own[0], 1).tolist() == [1, 1]
    assert hvd.broadcast_object({"epoch": place.rank}, 1) == {"epoch": 1}
    with pytest.raises(ValueError, match="op=Adasum"):
        hvd.allreduce(own, op=hvd.Adasum)


def with_states(spec: Any, place: RankPlace, recorder: Recorder) -> None:
    """Rank 1 has a checkpoint that rank 0 does not have."""
    join(place)
    torch.manual_seed(place.rank)
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5 if place.rank else 0.1)
    if place.rank == 1:
        model(torch.ones(2)).sum().backward()
        optimizer.step()
    hvd.broadcast_parameters(model.state_dict(), root_rank=1)
    hvd.broadcast_optimizer_state(optimizer, root_rank=1)
    recorder.log({"loss": model.weight.sum().item()}, 0)
    recorder.log({"loss": optimizer.param_groups[0]["lr"]}, 1)
    recorder.log({"loss": optimizer.state[model.weight]["exp_avg"].sum().item()}, 2)


@pytest.mark.parametrize(("own", "theirs"), [(with_horovod, with_ddp), (with_horovod_in_fp16, with_ddp_in_fp16)])
def test_losses_are_those_of_distributed_data_parallel_to_the_bit(
    own: Callable[..., None], theirs: Callable[..., None]
) -> None:
    found = on_two(own)
    assert found == on_two(theirs)
    assert len(found[0]) == 10 and found[0] != found[1]


def test_what_is_clipped_between_synchronize_and_step_is_of_all_ranks() -> None:
    assert on_two(with_clipping) == [{0: 15.0, 1: pytest.approx(-4.0)}] * 2


def test_tensors_and_objects_go_to_all_ranks() -> None:
    on_two(with_collectives)


def test_parameters_and_the_optimizer_are_those_of_the_root() -> None:
    first, second = on_two(with_states)
    assert first == second and first[1] == 0.5 and first[2] != 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"op": hvd.Adasum}, "op=Adasum"),
        ({"gradient_predivide_factor": 2.0}, "gradient_predivide_factor=2"),
        ({"named_parameters": [("weight", torch.nn.Parameter(torch.ones(1)))]}, "lacks 1 of the 1 parameters"),
    ],
)
def test_what_is_not_served_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        hvd.DistributedOptimizer(torch.optim.SGD([torch.nn.Parameter(torch.ones(1))]), **changes)
