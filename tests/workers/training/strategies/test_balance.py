from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.workers.training.checkpoints.yard import Yard
from tests.workers.training.ranks import Point, series, tiny_spec, train_on
from trainyard.spec.sections.parallel import Parallel
from workers.training.mesh import make_mesh, share_batch
from workers.training.strategies.balance import LEAST_GAIN, Balance, better_sizes, whole_rows

TOLERANCE = 1e-6  # relative; without the weights 1e-3 at the second step
SPEED = {"balance": "speed"}
PARALLEL = Parallel()


def rounds(sizes: tuple[int, ...], row_s: list[float], *, rest_s: float = 0.0, num: int = 6) -> list[tuple[int, ...]]:
    """Return the shares after each exchange between ranks that need ``row_s`` for a row and ``rest_s`` beside."""
    found = [sizes]
    for _ in range(num):
        busy_s = [rest_s + rows * seconds for rows, seconds in zip(found[-1], row_s, strict=True)]
        found.append(better_sizes(found[-1], busy_s))
    return found


def test_who_is_twice_as_fast_gets_twice_the_rows() -> None:
    assert rounds((24, 24), [1.0, 2.0])[-1] == (32, 16)
    assert rounds((12, 12, 12), [1.0, 2.0, 1.0])[-1] == (14, 8, 14)  # 14.4, 7.2 and 14.4, and one row to give


def test_the_shares_settle_where_all_are_busy_for_the_same_time() -> None:
    """By the rows that are computed in all the time that is spent, shares would be 29 and 19 of the first look."""
    assert rounds((24, 24), [1.0, 2.0], rest_s=6.0)[-1] == (32, 16)


def test_a_share_never_overshoots_and_comes_back() -> None:
    for rest_s in (0.0, 4.0):
        fast = [sizes[0] for sizes in rounds((50, 50), [1.0, 3.0], rest_s=rest_s)]
        assert all(later >= earlier for earlier, later in pairwise(fast)), fast


def test_shares_are_left_alone_where_a_change_gains_no_more_than_noise() -> None:
    assert better_sizes((16, 16), [1.0, 1.0 + LEAST_GAIN]) == (16, 16)
    assert better_sizes((1, 1), [1.0, 2.0]) == (1, 1)


@pytest.mark.parametrize("busy_s", [[0.0, 1.0], [0.0, 0.0]])
def test_times_that_say_nothing_change_nothing(busy_s: list[float]) -> None:
    assert better_sizes((4, 4), busy_s) == (4, 4)


def test_nobody_is_left_without_a_row() -> None:
    assert rounds((4, 4), [1.0, 1000.0])[-1] == (7, 1)


@pytest.mark.parametrize("wanted", [[0.2, 0.3, 5.5], [2.0, 2.0, 2.0], [1.4, 1.4, 3.2], [5.9, 0.05, 0.05]])
def test_whole_rows_lose_and_invent_none(wanted: list[float]) -> None:
    rows = whole_rows(wanted, 6)
    assert sum(rows) == 6 and min(rows) >= 1
    assert all(got <= max(1, want + 1) for got, want in zip(rows, wanted, strict=True))


@pytest.mark.parametrize("sizes", [[], [5, 5], [4, 2, 2]])
def test_shares_of_another_batch_or_other_ranks_are_of_no_use(sizes: list[int]) -> None:
    import torch

    balance = Balance(share_batch(8, 1, make_mesh(PARALLEL, 2)), torch.device("cpu"))
    assert not balance.load(sizes)
    assert balance.state() == [4, 4]
    assert balance.load([7, 1]) and balance.state() == [7, 1]


def take_shares_in_turn(turns: list[tuple[int, ...]]) -> None:
    """Let the shares change at every exchange, whatever was measured, and exchange in every other step."""
    from workers.training.strategies import balance

    following = iter(turns)
    balance.better_sizes = lambda sizes, busy_s: next(following, tuple(sizes))
    balance.EVERY_STEPS = 1


def take_shares_without_weights(turns: list[tuple[int, ...]]) -> None:
    from workers.training.mesh import BatchShare

    take_shares_in_turn(turns)
    BatchShare.weight = property(lambda self: 1.0)  # type: ignore[assignment, method-assign]


def largest_difference(one: dict[int | None, float], other: dict[int | None, float]) -> float:
    assert one.keys() == other.keys()
    return max(abs(one[step] - other[step]) / abs(one[step]) for step in one)


def rows_of(points: list[Point]) -> list[float]:
    return [value for name, _, _, value in points if name == "rank/rows"]


TURNS: dict[int, list[tuple[int, ...]]] = {2: [(5, 3), (2, 6), (7, 1), (1, 7)], 3: [(2, 1, 6), (7, 1, 1), (3, 4, 2)]}


@pytest.mark.parametrize(("world", "accumulate"), [(2, 1), (2, 2), (3, 1)])
def test_whatever_the_shares_the_ranks_learn_what_one_learns(world: int, accumulate: int) -> None:
    turns = TURNS[world]
    changes: dict[str, Any] = {"batch_size": sum(turns[0]) * accumulate, "accumulate": accumulate}
    (alone,) = train_on(1, tiny_spec(**changes))
    ranks = train_on(
        world, tiny_spec(world=world, parallel=SPEED, **changes), setup=partial(take_shares_in_turn, turns)
    )
    for name in ("train/loss", "train/gradient_norm", "val/loss"):
        assert largest_difference(series(alone, name), series(ranks[0], name)) < TOLERANCE, name
    for rank, points in enumerate(ranks):
        seen = set(rows_of(points))
        assert {accumulate * sizes[rank] for sizes in turns} <= seen, (rank, seen)


def test_parity_goes_red_when_the_weights_are_left_out() -> None:
    (alone,) = train_on(1, tiny_spec())
    ranks = train_on(2, tiny_spec(world=2, parallel=SPEED), setup=partial(take_shares_without_weights, TURNS[2]))
    assert largest_difference(series(alone, "train/loss"), series(ranks[0], "train/loss")) > 100 * TOLERANCE


SLOW_S = 0.004  # for each row


def slow_down_rank_1_by_the_row() -> None:
    import time

    import torch
    import torch.distributed as dist

    from workers.training.recipes.language_model import LanguageModelTask

    plain = LanguageModelTask.loss

    def slow(self: Any, model: Any, batch: Any) -> Any:
        if torch.is_grad_enabled():
            time.sleep(len(batch[0]) * SLOW_S * (1 + dist.get_rank()))
        return plain(self, model, batch)

    LanguageModelTask.loss = slow  # type: ignore[method-assign]


def test_a_slow_rank_gets_fewer_rows_and_a_restart_goes_on_with_its_share(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    changes: dict[str, Any] = {"batch_size": 24, "validate_every_steps": 0, "checkpoint": {"every_steps": 14}}
    first = yard.train(2, steps=14, parallel=SPEED, setup=slow_down_rank_1_by_the_row, **changes)
    rows = [rows_of(points) for points in first]
    assert all(one + other == 24 for one, other in zip(*rows, strict=True))
    assert rows[0][0] == 12
    assert rows[0][-1] >= 15, rows  # 16 of 24 are right, but for what a step takes beside
    again = yard.train(2, steps=16, parallel=SPEED, **changes)
    assert [rows_of(points)[0] for points in again] == [rows_of(points)[-1] for points in first]
