from __future__ import annotations

from typing import Any

import pytest

from tests.workers.training.ranks import Point, series, tiny_spec, train_on

EVERY = 4
BYTES = 4 * (12_368 + EVERY)  # what an all-reduce of the tiny model and a round's losses comes to on each of two ranks


def spec(kind: str = "local-sgd", **changes: Any) -> dict[str, Any]:
    synchronization = {"kind": kind, "every_steps": EVERY, **changes.pop("synchronization", {})}
    return tiny_spec(world=2, **{"parallel": {"synchronization": synchronization}, **changes})


def tell_weights() -> None:
    """In a rank: report the weights with which its training ends."""
    from workers.training import main

    run_loop = main.run_loop

    def told(training, metrics, checkpoints):  # type: ignore[no-untyped-def]
        run_loop(training, metrics, checkpoints)
        for name, parameter in training.parameters().items():
            metrics.log({f"weight/{name}": parameter.detach().double().square().sum().item()})

    main.run_loop = told


def leave_averages_out() -> None:
    from workers.training.strategies.synchronization.local_sgd import LocalSGD

    tell_weights()
    LocalSGD._sum_over_ranks = lambda self, buffer: buffer.mul_(2)  # type: ignore[method-assign]


def weights(points: list[Point]) -> dict[str, float]:
    return {name: value for name, _, _, value in points if name.startswith("weight/")}


def own_losses(points: list[Point]) -> dict[int | None, float]:
    return series(points, "rank/loss")


def test_ranks_go_their_own_way_and_end_with_the_same_weights() -> None:
    """Ten steps are two rounds and a half: the end is an agreement too."""
    first, second = train_on(2, spec(), setup=tell_weights)
    assert weights(first) == weights(second) != {}
    losses = series(first, "train/loss")
    assert list(losses) == list(range(1, 11))
    for step in losses:  # known at the round's end, and of all rows
        one, other = own_losses(first)[step], own_losses(second)[step]
        assert one != other or step == 1  # the head starts at zero: at first each row has the same loss
        assert losses[step] == pytest.approx((one + other) / 2, rel=1e-6)
    sent = series(first, "rank/sent_bytes")
    assert [step for step in sent if sent[step]] == [4, 6, 8, 10]  # step 5 validates between two agreements: told at 6
    assert {sent[step] for step in (4, 6, 8, 10)} == {BYTES}


def test_without_the_averages_the_ranks_part() -> None:
    first, second = train_on(2, spec(), setup=leave_averages_out)
    assert weights(first) != weights(second)


def test_with_sgd_and_an_average_in_every_step_it_is_the_training_of_one_process() -> None:
    """All that SGD does, its momentum too, is linear in the gradients, so that the mean may be taken behind it."""
    plain: dict[str, Any] = {"optimizer": "sgd", "gradient_clip": 0, "learning_rate": 0.05}
    (alone,) = train_on(1, tiny_spec(**plain))
    pair = train_on(2, spec(synchronization={"every_steps": 1}, **plain))
    for name in ("train/loss", "val/loss"):
        assert series(pair[0], name) == pytest.approx(series(alone, name), rel=1e-6)


@pytest.mark.parametrize("kind", ["local-sgd", "diloco"])
def test_a_validation_between_agreements_sees_what_would_be_kept_and_changes_nothing(kind: str) -> None:
    same: dict[str, Any] = {"schedule": "constant", "learning_rate": 0.01}
    ended = train_on(2, spec(kind, steps=6, validate_every_steps=0, **same))[0]
    watched = train_on(2, spec(kind, steps=9, validate_every_steps=3, **same))[0]
    unwatched = train_on(2, spec(kind, steps=9, validate_every_steps=0, **same))[0]
    assert series(watched, "val/loss")[6] == series(ended, "val/loss")[6]
    assert series(watched, "train/loss") == series(unwatched, "train/loss")
    assert series(watched, "val/loss")[9] == series(unwatched, "val/loss")[9]
