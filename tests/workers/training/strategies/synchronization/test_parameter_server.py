from __future__ import annotations

import copy
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.workers.control import until
from tests.workers.training.ranks import Point, series, tiny_spec, train_on
from tests.workers.training.strategies.synchronization.test_local_sgd import tell_weights
from workers.training.strategies.synchronization.parameter_server import Clocks, Server, ServerLost, remove_worker

BOUND = 2


def spec(world: int = 2, **changes: Any) -> dict[str, Any]:
    kind = {"kind": "parameter-server", **changes.pop("synchronization", {})}
    return tiny_spec(world=world, parallel={"synchronization": kind}, **{"batch_size": 12, **changes})


def before_each_batch(act: Any) -> None:
    """In a rank: call ``act`` with its number and the step before it takes each batch."""
    from workers.training import main
    from workers.training.data.batches.feed import Feed

    ranks: list[int] = []
    make_mesh, batch = main.make_mesh, Feed.batch

    def made(parallel, world_size, rank):  # type: ignore[no-untyped-def]
        ranks.append(rank)
        return make_mesh(parallel, world_size, rank)

    def taken(self, step, index):  # type: ignore[no-untyped-def]
        act(ranks[0], step)
        return batch(self, step, index)

    main.make_mesh, Feed.batch = made, taken  # type: ignore[method-assign]


def let_rank_1_wait_in_step_1() -> None:
    """In a rank: let rank 1 begin its first step when rank 0 begins step LEAD + 1, so that it is LEAD ahead."""
    mark, lead = Path(os.environ["MARK"]), int(os.environ["LEAD"])

    def act(rank: int, step: int) -> None:
        if (rank, step) == (0, lead + 1):
            mark.touch()
        elif (rank, step) == (1, 1):
            until(mark.exists)

    before_each_batch(act)


def ignore_staleness() -> None:
    from workers.training.strategies.synchronization.parameter_server import Clocks

    let_rank_1_wait_in_step_1()
    Clocks.wait = lambda self, rank: self._lead(rank)  # type: ignore[method-assign]


def kill_rank_1_in_step_4() -> None:
    tell_weights()
    before_each_batch(lambda rank, step: os.kill(os.getpid(), signal.SIGKILL) if (rank, step) == (1, 4) else None)


def kill_rank_0_in_step_4() -> None:
    before_each_batch(lambda rank, step: os.kill(os.getpid(), signal.SIGKILL) if (rank, step) == (0, 4) else None)


def weights(points: list[Point]) -> dict[str, float]:
    return {name: value for name, _, _, value in points if name.startswith("weight/")}


def staleness(points: list[Point]) -> list[float]:
    return list(series(points, "rank/staleness").values())


def test_each_gradient_is_a_step_of_the_servers_optimizer_by_its_share_of_the_rate() -> None:
    weight = nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer = torch.optim.SGD([weight], lr=0.0, momentum=0.5)
    server = Server(optimizer, lambda step: 0.1 * step, Clocks((0, 1), done=0, max_staleness=1))
    reference = copy.deepcopy(weight)
    plain = torch.optim.SGD([reference], lr=0.0, momentum=0.5)
    for rank, step, gradient, rate in ((0, 1, [1.0, 0.0], 0.05), (1, 1, [0.0, 2.0], 0.05), (0, 2, [3.0, 1.0], 0.1)):
        server.apply(rank, step, torch.tensor(gradient), loss=5.0)
        plain.param_groups[0]["lr"] = rate
        reference.grad = torch.tensor(gradient)
        plain.step()
    pulled = torch.zeros(2)
    server.copy_to(pulled)
    torch.testing.assert_close(pulled, reference.detach())
    assert weight.tolist() == [1.0, 2.0]  # the server has its own
    server.clocks.remove(1)
    server.apply(0, 3, torch.zeros(2), loss=5.0)
    assert server._optimizer.param_groups[0]["lr"] == pytest.approx(0.3)  # all of it, for the one that is left


def test_a_fast_rank_waits_at_the_bound_and_every_step_is_told(tmp_path: Path) -> None:
    bounded = spec(synchronization={"max_staleness": BOUND})
    environment = {"MARK": str(tmp_path / "mark"), "LEAD": str(BOUND)}
    first, second = train_on(2, bounded, setup=let_rank_1_wait_in_step_1, **environment)
    assert max(staleness(first)) == BOUND
    assert max(staleness(second)) <= BOUND
    losses = series(first, "train/loss")
    assert list(losses) == list(range(1, 11))
    one, other = (series(points, "rank/loss") for points in (first, second))
    assert losses == {step: pytest.approx((one[step] + other[step]) / 2) for step in losses}
    assert series(first, "val/loss")[10] < series(first, "val/loss")[0]
    assert sum(series(first, "rank/sent_bytes").values()) == sum(series(second, "rank/sent_bytes").values())
    assert set(series(second, "rank/sent_bytes").values()) == {4 * 12_368 + 16}


def test_without_the_gate_it_runs_past_the_bound(tmp_path: Path) -> None:
    bounded = spec(synchronization={"max_staleness": BOUND})
    environment = {"MARK": str(tmp_path / "mark"), "LEAD": str(BOUND + 4)}
    first, _ = train_on(2, bounded, setup=ignore_staleness, **environment)
    assert max(staleness(first)) > BOUND


def test_the_death_of_a_worker_costs_its_share_and_nothing_else() -> None:
    first, _, third = train_on(3, spec(3), setup=kill_rank_1_in_step_4, dying={1})
    assert list(series(first, "train/loss")) == list(range(1, 11))
    assert len(series(third, "rank/loss")) == 10
    assert weights(first) != {}


def test_a_death_is_told_in_the_log_in_few_words(capsys: pytest.CaptureFixture[str]) -> None:
    clocks = Clocks((0, 1), done=0, max_staleness=1)
    said = "[/src/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:4507. This is typically …"
    remove_worker(clocks, 1, RuntimeError(said))
    assert clocks.living == [0]
    assert capsys.readouterr().out == (
        "rank 1 is gone (Connection closed by peer [127.0.0.1]:4507); "
        "the training goes on without its share of the batch\n"
    )


def test_the_death_of_rank_0_ends_the_others_with_a_sentence() -> None:
    with pytest.raises(ServerLost, match="rank 0, which holds the weights, is gone in step"):
        train_on(2, spec(), setup=kill_rank_0_in_step_4, dying={0})


def test_rank_0_alone_validates_and_its_early_end_is_everybodys() -> None:
    first, second = train_on(
        2, spec(steps=1000, validate_every_steps=3, early_stopping={"patience": 1, "min_delta": 100.0})
    )
    assert list(series(first, "val/loss")) == [0, 3, 6]  # the first is better than none
    # It may be as far behind as ahead: by the bound, and the step that heard of it.
    assert 6 - 5 <= len(series(second, "rank/loss")) <= 6 + 5
    assert series(second, "val/loss") == {}
