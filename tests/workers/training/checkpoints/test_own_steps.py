"""Ranks that step by themselves: what is exact after a restart, and what is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.workers.training.checkpoints.yard import Yard, after, largest_difference, states
from workers.training.checkpoints.manifest import read_manifest

ROUND = 3  # steps


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path / "checkpoints")


def changes(kind: str, **more: Any) -> dict[str, Any]:
    rounds = {"every_steps": ROUND} if kind in ("local-sgd", "diloco") else {}
    return {
        "steps": 12,
        "checkpoint": {"every_steps": 5},
        "parallel": {"synchronization": {"kind": kind, **rounds}},
        **more,
    }


@pytest.mark.parametrize("kind", ["local-sgd", "diloco"])
def test_a_save_waits_for_the_end_of_the_round_and_the_same_ranks_go_on_bit_for_bit(kind: str, yard: Yard) -> None:
    whole = yard.train(2, **changes(kind))
    # Due behind step 5 and step 10; ranks hold the same weights behind 6 and 12, where the last is due as well.
    assert states(whole[0]) == [("saved", 6), ("saved", 12)]
    resumed = yard.train(2, restore=yard.offers()[1:], **changes(kind))
    assert states(resumed[0]) == [("restored", 6), ("saved", 12)]
    assert after(resumed[0], "train/loss", 0) == after(whole[0], "train/loss", 6)
    assert after(resumed[0], "val/loss", 0) == after(whole[0], "val/loss", 6)


@pytest.mark.parametrize("kind", ["local-sgd", "diloco"])
def test_each_rank_has_its_own_optimizer_and_the_weights_are_there_once(kind: str, yard: Yard) -> None:
    yard.train(2, **changes(kind))
    tensors = read_manifest(yard.folder / "step-12.fence-1").tensors
    assert len(tensors["model/head.weight"].parts) == 1
    assert "optimizer/head.weight/exp_avg" in tensors and "ranks/1/optimizer/head.weight/exp_avg" in tensors
    assert not any(name.startswith("ranks/") and "/model/" in name for name in tensors)


@pytest.mark.parametrize("kind", ["local-sgd", "diloco"])
def test_other_ranks_go_on_with_the_agreed_weights_and_the_optimizer_of_rank_0(kind: str, yard: Yard) -> None:
    whole = yard.train(2, **changes(kind))
    resumed = yard.train(4, restore=yard.offers()[1:], **changes(kind))
    assert states(resumed[0]) == [("restored", 6), ("saved", 12)]
    # Not the same mathematics: other ranks see other rows. But not a new beginning either.
    assert largest_difference(resumed[0], whole[0], step=6) < 0.05


def test_a_synchronous_run_goes_on_from_a_local_one(yard: Yard) -> None:
    yard.train(2, **changes("local-sgd"))
    points = yard.train(2, restore=yard.offers()[1:], **changes("every-step"))[0]
    assert states(points)[0] == ("restored", 6)


def test_a_parameter_server_keeps_the_weights_that_it_serves(yard: Yard) -> None:
    first = yard.train(2, **changes("parameter-server"))
    assert [state for state, _ in states(first[0])] == ["saved"] * len(states(first[0])) != []
    assert states(first[1]) == []
    manifest = read_manifest(yard.folder / yard.names()[-1])
    assert list(manifest.files) == ["rank-0.safetensors"]
    middle = [offer for offer in yard.offers() if offer["step"] < 12][:1]
    assert middle
    again = yard.train(2, restore=middle, **changes("parameter-server"))
    assert states(again[0])[0] == ("restored", middle[0]["step"])
