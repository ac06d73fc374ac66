from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.workers.training.ranks import Point, Recorder, series, tiny_spec, train_on
from trainyard.spec import read_spec
from workers.training.group import RankPlace
from workers.training.main import train
from workers.training.recipes.gpt import GPT, Shape

GLOBAL = {
    "train/loss",
    "train/gradient_norm",
    "train/learning_rate",
    "train/step_time_s",
    "train/tokens",
    "train/tokens_per_second",
    "train/epoch",
    "train/mfu",
    "train/flops_per_second",
    "val/loss",
    "val/nats_per_byte",
}
PHASES = {f"rank/phase/{name}_s" for name in ("data", "forward", "backward", "communication", "optimizer")}


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("output")


@pytest.fixture(scope="module")
def pair(output: Path) -> list[list[Point]]:
    """What two ranks have logged of one run."""
    return train_on(2, tiny_spec(world=2, steps=12), TRAINYARD_OUTPUT=str(output))


def test_a_run_learns(pair: list[list[Point]]) -> None:
    losses = series(pair[0], "train/loss")
    assert losses[1] == pytest.approx(math.log(256), abs=1e-3)
    assert losses[12] < losses[1]


def test_steps_are_one_to_the_last_and_validation_starts_at_zero(pair: list[list[Point]]) -> None:
    assert list(series(pair[0], "train/loss")) == list(range(1, 13))
    assert list(series(pair[0], "val/loss")) == [0, 5, 10, 12]


def test_global_series_come_from_rank_0_alone(pair: list[list[Point]]) -> None:
    assert {name for name, _, labels, _ in pair[0] if not labels} == GLOBAL
    assert {name for name, _, labels, _ in pair[1] if not labels} == set()


def test_each_rank_tells_its_own_memory_and_waiting(pair: list[list[Point]]) -> None:
    for rank, points in enumerate(pair):
        own = {name: value for name, step, labels, value in points if labels == {"rank": str(rank)} and step == 12}
        assert own.keys() == {"rank/memory_bytes", "rank/data_time_s", "rank/sent_bytes", *PHASES}
        assert 10e6 < own["rank/memory_bytes"] < 10e9


def test_validation_at_the_last_step_comes_once() -> None:
    (points,) = train_on(1, tiny_spec(steps=10))
    assert [step for name, step, _, _ in points if name == "val/loss"] == [0, 5, 10]


def test_with_0_validation_is_at_the_start_and_the_end_only() -> None:
    (points,) = train_on(1, tiny_spec(steps=4, validate_every_steps=0))
    assert list(series(points, "val/loss")) == [0, 4]


def test_the_final_weights_load_into_a_model_of_the_described_size(pair: list[list[Point]], output: Path) -> None:
    assert sorted(path.name for path in output.iterdir()) == ["model.json", "model.safetensors"]
    config = json.loads((output / "model.json").read_text())
    model = GPT(Shape(**config["model"]))
    model.load_state_dict(load_file(output / "model.safetensors"))
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())
    assert model.head.weight.abs().sum() > 0


def test_a_loss_that_is_not_finite_is_told_and_ends_nothing() -> None:
    (points,) = train_on(
        1, tiny_spec(steps=6, learning_rate=1000, gradient_clip=0, optimizer="sgd", schedule="constant")
    )
    losses = series(points, "train/loss")
    assert list(losses) == [1, 2, 3, 4, 5, 6]
    assert any(not math.isfinite(loss) for loss in losses.values())


def test_sgd_learns_too() -> None:
    (points,) = train_on(1, tiny_spec(steps=12, optimizer="sgd", learning_rate=0.1))
    losses = series(points, "train/loss")
    assert losses[12] < losses[1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"heads": 3}}, r"task\.model\.heads is 3, .* task\.model\.width 16"),
        ({"model": {"heads": 16}}, r"task\.model\.heads is 16: width 16 / heads 16 = 1"),
        ({"model": {"layers": 0}}, r"task\.model\.layers: must be at least 1, not 0"),
        ({"train": {"batch_size": 7, "accumulate": 2}}, r"train\.batch_size is 7, .* = 2 does not divide"),
        ({"train": {"optimizer": "lion"}}, r"train\.optimizer: must be adamw, sgd or muon, not .lion"),
        ({"task": {"recipe": "poetry"}}, r"task\.recipe: must be language-model, .* not .poetry"),
        ({"model": {"context": 100_000_000}}, r"task\.model\.context: must be at most 1,048,576, not 100000000"),
        ({"parallel": {"tensor": 2}}, r"tensor 2 .* does not divide the 1 ranks"),
    ],
)
def test_what_cannot_be_trained_is_refused_naming_field_and_number(
    changes: dict[str, dict[str, object]], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = tiny_spec()
    parts = {"model": spec["task"]["model"], "train": spec["train"], "task": spec["task"], "parallel": spec["parallel"]}
    for part, values in changes.items():
        parts[part].update(values)
    monkeypatch.setenv("TRAINYARD_THREADS", str(torch.get_num_threads()))
    try:
        with pytest.raises(ValueError, match=message):
            train(read_spec(spec), RankPlace(), Recorder())  # type: ignore[arg-type]
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def test_a_shard_without_validation_rows_still_lends_its_weights() -> None:
    pair = train_on(2, tiny_spec(world=2, steps=1, warmup_steps=0, parallel={"shard": 2}), setup=validate_one_row)
    (alone,) = train_on(1, tiny_spec(steps=1, warmup_steps=0), setup=validate_one_row)
    assert series(pair[0], "val/loss") == pytest.approx(series(alone, "val/loss"), rel=1e-5)


def validate_one_row() -> None:
    from workers.training.recipes import language_model

    language_model.VALIDATION_TOKENS = 16
