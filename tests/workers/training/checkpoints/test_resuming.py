from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors import safe_open

from tests.workers.training.checkpoints.yard import RUN, Yard, after, largest_difference, states
from tests.workers.training.ranks import notes, series, tiny_spec, train_on
from workers.training.checkpoints.manifest import read_manifest

EXTENDED = pytest.mark.extended
EVERY_5 = {"every_steps": 5}
LIMIT = 1e-5  # relative, after a change of world size


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path / "checkpoints")


def forget_the_optimizer() -> None:
    from workers.training import keeping

    load_state = keeping.load_state

    def forgetful(training, *rest):  # type: ignore[no-untyped-def]
        load_state(training, *rest)
        training.optimizer.state.clear()

    keeping.load_state = forgetful


def forget_the_random_state() -> None:
    from workers.training.checkpoints import state

    draw_numbers_in_every_forward()
    state.load_random_state = lambda *arguments: None


def draw_numbers_in_every_forward() -> None:
    """Make the loss depend on all that a rank may draw from, as dropout does on one of them."""
    import random

    import numpy as np
    import torch

    from workers.training.recipes.language_model import LanguageModelTask

    plain = LanguageModelTask.loss

    def loss(self, model, batch):  # type: ignore[no-untyped-def]
        return plain(self, model, batch) * (1 + torch.rand(()) + random.random() + np.random.random())

    LanguageModelTask.loss = loss  # type: ignore[method-assign]
    if not torch.distributed.is_initialized():
        random.seed(1)  # else each process begins somewhere else
        np.random.seed(1)


def read_every_region_from_the_start() -> None:
    """Give every rank the first rows of what it needs others of."""
    from workers.training.checkpoints import state
    from workers.training.checkpoints.pieces import Region

    regions_to_read = state.regions_to_read

    def shifted(*arguments):  # type: ignore[no-untyped-def]
        regions = regions_to_read(*arguments)
        return {name: Region(one.whole, (0,) * len(one.whole), one.shape) for name, one in regions.items()}

    from workers.training.checkpoints import reading

    reading.regions_to_read = shifted


@pytest.mark.parametrize("world", [1, 2])
def test_a_resumed_run_equals_the_uninterrupted_one_bit_for_bit(world: int, yard: Yard) -> None:
    whole = train_on(world, tiny_spec(world=world, steps=15, schedule="constant"))[0]
    first = yard.train(world, steps=5, schedule="constant", checkpoint=EVERY_5)[0]
    second = yard.train(world, steps=15, schedule="constant", checkpoint=EVERY_5)[0]
    assert states(first) == [("saved", 5)]
    assert states(second) == [("restored", 5), ("saved", 10), ("saved", 15)]
    for name in ("train/loss", "train/gradient_norm", "val/loss"):
        assert after(second, name, 0) == after(whole, name, 5), name
    assert list(after(second, "train/loss", 0)) == list(range(6, 16))


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": "sgd", "learning_rate": 0.1},
        pytest.param({"optimizer": "muon"}, marks=EXTENDED),
        pytest.param({"precision": "fp16"}, marks=EXTENDED),
        {"parallel": {"compression": "powersgd"}},
        pytest.param({"parallel": {"compression": "topk", "topk_ratio": 0.05}}, marks=EXTENDED),
        {"parallel": {"shard": 2}, "accumulate": 2},
    ],
    ids=["sgd", "muon", "fp16", "powersgd", "topk", "shard"],
)
def test_whatever_keeps_a_state_of_its_own_goes_on_bit_for_bit(changes: dict[str, object], yard: Yard) -> None:
    whole = yard.train(2, steps=8, checkpoint={"every_steps": 4}, **changes)[0]
    resumed = yard.train(2, steps=8, checkpoint={"every_steps": 4}, restore=yard.offers()[1:], **changes)[0]
    assert states(resumed) == [("restored", 4), ("saved", 8)]
    assert after(resumed, "train/loss", 0) == after(whole, "train/loss", 4)


def test_random_numbers_go_on_where_they_were(yard: Yard) -> None:
    changes = {"schedule": "constant", "checkpoint": EVERY_5}
    whole = yard.train(2, steps=10, setup=draw_numbers_in_every_forward, **changes)[0]
    resumed = yard.train(2, steps=10, setup=draw_numbers_in_every_forward, restore=yard.offers()[1:], **changes)[0]
    assert after(resumed, "train/loss", 0) == after(whole, "train/loss", 5)
    forgotten = yard.train(2, steps=10, setup=forget_the_random_state, restore=yard.offers()[-1:], **changes)[0]
    assert after(forgotten, "train/loss", 0) != after(whole, "train/loss", 5)


@pytest.mark.parametrize(
    "way",
    [
        (1, {}),
        pytest.param((4, {}), marks=EXTENDED),
        (2, {"shard": 2}),
        pytest.param((2, {"tensor": 2}), marks=EXTENDED),
        pytest.param((2, {"pipeline": {"stages": 2}}), marks=EXTENDED),
    ],
    ids=["one rank", "data 4", "shard 2", "tensor 2", "pipeline 2"],
)
def test_a_run_of_two_ranks_goes_on_in_another_way(way: tuple[int, dict[str, object]], yard: Yard) -> None:
    world, parallel = way
    whole = yard.train(2, steps=10, checkpoint=EVERY_5)[0]
    resumed = yard.train(world, steps=10, parallel=parallel, checkpoint=EVERY_5, restore=yard.offers()[1:])[0]
    assert states(resumed) == [("restored", 5), ("saved", 10)]
    assert largest_difference(resumed, whole, step=5) < LIMIT
    # And back.
    back = yard.train(2, steps=12, checkpoint=EVERY_5, restore=yard.offers()[:1], schedule="constant")[0]
    same = yard.train(2, steps=12, checkpoint=EVERY_5, restore=yard.offers()[-2:-1], schedule="constant")[0]
    assert largest_difference(back, same, step=10) < LIMIT


def test_a_run_that_grows_and_shrinks_has_the_losses_of_one_that_never_did(yard: Yard, tmp_path: Path) -> None:
    """On one rank, then three, then two: the global batch and its order stay as they are."""
    shared = {"batch_size": 12, "schedule": "constant", "checkpoint": {"every_steps": 4}}
    whole = Yard(tmp_path / "whole").train(1, steps=12, **shared)[0]
    for world, last in ((1, 4), (3, 8), (2, 12)):
        part = yard.train(world, steps=last, **shared)[0]
        here = series(part, "train/loss")
        assert sorted(step for step in here if step is not None) == list(range(last - 3, last + 1))
        expected = series(whole, "train/loss")
        assert max(abs(value - expected[step]) / abs(expected[step]) for step, value in here.items()) < LIMIT


@pytest.mark.parametrize("mistake", [forget_the_optimizer, read_every_region_from_the_start])
def test_what_is_not_restored_right_is_seen(mistake: Callable[[], None], yard: Yard) -> None:
    whole = yard.train(2, steps=10, checkpoint=EVERY_5)[0]
    resumed = yard.train(2, steps=10, parallel={"shard": 2}, setup=mistake, restore=yard.offers()[1:])[0]
    assert largest_difference(resumed, whole, step=5) > 10 * LIMIT


def test_copies_share_the_writing_and_each_tensor_is_there_once(yard: Yard) -> None:
    points = yard.train(2, steps=3, checkpoint={"every_steps": 3})[0]
    folder = yard.folder / "step-3.fence-1"
    manifest = read_manifest(folder)
    assert sorted(path.name for path in folder.iterdir()) == [
        "manifest.json", "rank-0.safetensors", "rank-1.safetensors",
    ]  # fmt: skip
    sizes = [file.bytes for file in manifest.files.values()]
    assert max(sizes) < 1.2 * min(sizes)
    assert all(len(tensor.parts) == 1 for tensor in manifest.tensors.values())
    (saved,) = notes(points)
    assert saved["bytes"] == sum(path.stat().st_size for path in folder.iterdir())
    assert saved["num_files"] == 3 and saved["world_size"] == 2
    assert f"step-{saved['step']}.fence-{saved['fence']}" == folder.name
    assert saved["degrees"] == {"pipeline": 1, "data": 2, "shard": 1, "context": 1, "tensor": 1}
    assert 0 < saved["stall_s"] < saved["took_s"] < 60


def test_any_reader_of_safetensors_can_read_a_part(yard: Yard) -> None:
    yard.train(1, steps=2, checkpoint={"every_steps": 2})
    with safe_open(yard.folder / "step-2.fence-1" / "rank-0.safetensors", framework="pt") as opened:
        assert opened.get_tensor("model/head.weight").shape == (256, 16)
        assert opened.get_tensor("optimizer/head.weight/exp_avg").abs().sum() > 0
        assert opened.get_tensor("optimizer/head.weight/step").item() == 2


def test_only_the_newest_are_kept(yard: Yard) -> None:
    points = yard.train(2, steps=8, checkpoint={"every_steps": 2, "keep": 2})[0]
    assert yard.names() == ["step-6.fence-1", "step-8.fence-1"]
    assert states(points) == [
        ("saved", 2), ("saved", 4), ("saved", 6), ("deleted", 2), ("saved", 8), ("deleted", 4),
    ]  # fmt: skip


def test_the_last_step_is_kept_whatever_the_interval(yard: Yard) -> None:
    points = yard.train(1, steps=3, checkpoint={"every_steps": 100})[0]
    assert states(points) == [("saved", 3)]


def test_the_step_at_which_a_run_stops_early_is_kept_and_it_does_not_go_on_from_there(yard: Yard) -> None:
    changes = {
        "steps": 20,
        "validate_every_steps": 2,
        "checkpoint": {"every_steps": 100},
        "early_stopping": {"patience": 2, "min_delta": 100},
    }
    first = yard.train(2, **changes)[0]
    assert states(first) == [("saved", 6)]  # the first validation, before step 1, does not count; the next is the best
    again = yard.train(2, **changes)[0]
    assert states(again) == [("restored", 6)]
    assert not series(again, "train/loss")


def test_with_0_nothing_is_kept(yard: Yard) -> None:
    points = yard.train(1, steps=3, checkpoint={"every_steps": 0})[0]
    assert states(points) == [] and not yard.folder.exists()


def test_what_an_attempt_left_half_done_is_removed_by_the_next(yard: Yard) -> None:
    yard.train(1, steps=2, checkpoint={"every_steps": 2})
    for name in (".step-3.fence-1.tmp", ".step-1.fence-1.deleted", ".step-9.fence-9.tmp", "notes"):
        (yard.folder / name).mkdir()
        (yard.folder / name / "rank-0.safetensors").write_bytes(b"half")
    points = yard.train(1, steps=4, checkpoint={"every_steps": 2})[0]
    assert states(points) == [("deleted", 1), ("restored", 2), ("saved", 4)]
    # What a later attempt, or a person, has put there is left alone.
    assert yard.names() == [".step-9.fence-9.tmp", "notes", "step-2.fence-1", "step-4.fence-2"]


def test_another_run_goes_on_from_the_checkpoint_that_it_names(yard: Yard, tmp_path: Path) -> None:
    yard.train(2, steps=4, checkpoint={"every_steps": 2})
    offer = [one for one in yard.offers() if one["step"] == 2]
    other = Yard(tmp_path / "other", run="k3vm2tq9xa")
    points = other.train(2, steps=6, checkpoint={"every_steps": 2, "restore": f"{RUN}@2"}, restore=offer)[0]
    restored = notes(points)[0]
    assert (restored["state"], restored["run"], restored["step"]) == ("restored", RUN, 2)
    assert other.names() == ["step-4.fence-1", "step-6.fence-1"]
    assert yard.names() == ["step-2.fence-1", "step-4.fence-1"]


def test_another_optimizer_starts_with_the_weights_alone(yard: Yard) -> None:
    yard.train(1, steps=2, checkpoint={"every_steps": 2})
    points = yard.train(2, steps=4, optimizer="sgd", checkpoint={"every_steps": 2})[0]
    assert states(points) == [("restored", 2), ("saved", 4)]
    manifest = read_manifest(yard.folder / "step-4.fence-2")
    assert {name.rpartition("/")[2] for name in manifest.tensors if name.startswith("optimizer/")} == {
        "momentum_buffer"
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"model": {"width": 32}},
            r"of another model: embedding\.weight is \(256, 16\) there and \(256, 32\) here; .* and \d+ more",
        ),
        (
            {"model": {"layers": 3}},
            r"of another model: layers\.2\.attention\.key\.weight is not there and \(16, 16\) here",
        ),
        (
            {"model": {"layers": 1}},
            r"of another model: layers\.1\.attention\.key\.weight is \(16, 16\) there and not here",
        ),
    ],
)
def test_a_checkpoint_of_another_model_is_refused(changes: dict[str, object], message: str, yard: Yard) -> None:
    yard.train(1, steps=2, checkpoint={"every_steps": 2})
    with pytest.raises(ValueError, match=r"checkpoint\.restore: step-2\.fence-1 of run 272bay33uw is " + message):
        yard.train(2, steps=4, **changes)


def test_a_named_checkpoint_that_is_not_offered_is_refused(yard: Yard) -> None:
    with pytest.raises(ValueError, match=r"checkpoint\.restore is 272bay33uw@7, .* the node was offered no checkpoint"):
        yard.train(1, steps=8, checkpoint={"restore": f"{RUN}@7"}, restore=[])


def test_the_manifest_says_how_to_build_the_model_again(yard: Yard) -> None:
    yard.train(1, steps=2, checkpoint={"every_steps": 2})
    document = json.loads((yard.folder / "step-2.fence-1" / "manifest.json").read_text())
    assert document["model"]["recipe"] == "language-model" and document["model"]["model"]["width"] == 16
    assert document["run"] == RUN and document["step"] == 2 and document["fence"] == 1
