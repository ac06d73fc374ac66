"""What a training was configured with, read from its command line."""

from __future__ import annotations

from typing import Any

import pytest

from runs.values.run_config import MAX_BYTES, config_of, read_command_line, why_not_kept


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("--lr 3e-4 --width=64", {"lr": 0.0003, "width": 64}),
        ("--learning-rate -0.5", {"learning_rate": -0.5}),
        ("-b 32 --amp --no-compile", {"b": 32, "amp": True, "compile": False}),
        ("--amp --lr 1", {"amp": True, "lr": 1}),
        ("--shuffle FALSE --name x=y", {"shuffle": False, "name": True, "x": "y"}),
        ("--betas 0.9 0.95 data.csv", {"betas": 0.9}),
        ("--betas 0.9 0.95", {"betas": [0.9, 0.95]}),
        ("model.width=64 +optim.name=muon ~extra", {"model": {"width": 64}, "optim": {"name": "muon"}}),
        ("--model.width 64 --model.width=128", {"model": {"width": 128}}),
        ("a=1 a.b=2", {"a": {"b": 2}}),
        ("train.py data/a.csv https://host/x?a=b", {}),
        ("--lr 1 -- --lr 2", {"lr": 1}),
        ("--key ${TOKEN} --big 1e999", {"key": "${TOKEN}", "big": "1e999"}),
        ("- -- =", {}),
    ],
)  # fmt: skip
def test_options_are_read_as_argparse_and_hydra_take_them(line: str, wanted: dict[str, Any]) -> None:
    found = read_command_line(line.split())
    assert found == wanted and str(found) == str(wanted)  # 1 is not True


def test_of_a_recipe_it_is_the_train_part() -> None:
    assert config_of({"task": {"recipe": "tabular"}, "train": {"steps": 3}}) == {"steps": 3}
    assert config_of({"task": {"script": "train.py", "arguments": ["--steps", "3"]}, "train": {}}) == {"steps": 3}
    assert config_of({"task": {"command": ["python", "train.py", "--lr=1"]}}) == {"lr": 1}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"a": "x" * MAX_BYTES}, "1,048,576"),
        ({"a": float("nan")}, "not finite"),
        ({"a": "\ud800"}, "no Unicode"),
        ({"a": ["b\0"]}, "NUL"),
        ({"a": "\\u0000"}, ""),
    ],
)
def test_what_cannot_be_kept_is_said_in_words(config: dict[str, Any], words: str) -> None:
    assert words in why_not_kept(config) and bool(words) == bool(why_not_kept(config))
