"""Trainings over somebody's own text."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from tests.disks import disk_of_1_mb
from tests.workers.training.ranks import facts, series, tiny_spec, train_on
from workers.training.data.problems import DataProblem


def story(path: Path, num_lines: int = 3000, **data: Any) -> dict[str, Any]:
    """Write a text and return the task that reads it."""
    path.write_text("".join(f"{number % 24} trains are in the yard\n" for number in range(num_lines)))
    model = {"layers": 1, "width": 16, "heads": 2, "context": 16}
    return {"recipe": "language-model", "model": model, "data": {"source": "text", "location": str(path), **data}}


def test_pairs_are_learnt_and_their_tokenizer_lies_beside_the_weights(tmp_path: Path) -> None:
    task = story(tmp_path / "story.txt", tokens="bpe", vocabulary=300)
    pair = train_on(2, tiny_spec(world=2, steps=6, task=task), TRAINYARD_OUTPUT=str(tmp_path / "output"))
    assert sorted(path.name for path in (tmp_path / "output").iterdir()) == [
        "model.json", "model.safetensors", "tokenizer.json",
    ]  # fmt: skip
    tokenizer = Tokenizer.from_file(str(tmp_path / "output" / "tokenizer.json"))
    assert tokenizer.decode(tokenizer.encode("7 trains are in the yard").ids) == "7 trains are in the yard"
    assert json.loads((tmp_path / "output" / "model.json").read_text())["model"]["vocabulary"] == 300
    losses = series(pair[0], "train/loss")
    assert losses[1] == pytest.approx(math.log(300), abs=1e-3) and losses[6] < losses[1]
    # A token is worth some bytes here: a loss of as many nats per token is fewer per byte.
    assert series(pair[0], "val/nats_per_byte")[6] < series(pair[0], "val/loss")[6] / 3
    told = facts(pair[0], "data")
    assert told["vocabulary"] == 300 and told["num_rows"] == (told["tokens"] - 1) // 16


def test_ranks_that_share_the_model_learn_odd_vocabularies_as_one_does(tmp_path: Path) -> None:
    task = story(tmp_path / "story.txt", tokens="bpe", vocabulary=301)
    task["model"]["layers"] = 2
    (alone,) = train_on(1, tiny_spec(steps=2, task=task))
    for parallel in ({"tensor": 2}, {"pipeline": {"stages": 2}}):
        points = train_on(2, tiny_spec(world=2, steps=2, task=task, parallel=parallel))[0]
        for name in ("train/loss", "val/loss", "val/nats_per_byte"):
            assert series(points, name) == pytest.approx(series(alone, name), rel=1e-5), (parallel, name)


def test_a_byte_is_a_token_where_nothing_else_is_asked_for(tmp_path: Path) -> None:
    (points,) = train_on(1, tiny_spec(steps=2, task=story(tmp_path / "story.txt")))
    assert series(points, "val/nats_per_byte") == pytest.approx(series(points, "val/loss"))


def test_a_rank_whose_cache_is_on_a_full_disk_says_so(tmp_path: Path) -> None:
    task = story(tmp_path / "story.txt", num_lines=60_000)
    with disk_of_1_mb(tmp_path / "disk") as disk:
        message = (
            rf"the disk of the cache {disk} is full: 1\.\d+ MiB or more are needed and [\d.]+ [KM]iB are free; make"
        )
        with pytest.raises(DataProblem, match=message):
            train_on(
                1, tiny_spec(steps=2, task=task), TRAINYARD_CACHE=str(disk), TRAINYARD_CACHE_LIMIT_BYTES=str(10**9)
            )
