"""Histograms of a real module, in the backward passes that were asked for."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch

import trainyard
from tests.trainyard.spooled import producers


def histograms(spool: Path) -> set[tuple[str, int]]:
    [frames] = producers(spool)
    return {(frame.payload["name"], frame.payload["step"]) for frame in frames if frame.kind == "media"}


def trained(log: Any, every: int) -> None:
    run, model = trainyard.init(), torch.nn.Linear(2, 1)
    model.bias.requires_grad_(False)
    run.watch(model, log=log, every=every)
    for step in range(5):
        model(torch.ones(1, 2)).sum().backward()
        run.log({"loss": 1.0}, step=step)
    run.finish()


@pytest.mark.parametrize(
    ("log", "every", "logged"),
    [
        ("gradients", 2, {("gradients/weight", step) for step in (0, 2, 4)}),
        ("parameters", 4, {("parameters/weight", step) for step in (0, 4)}),
        ("all", 5, {("gradients/weight", 0), ("parameters/weight", 0)}),
    ],
)
def test_every_so_many_passes_a_histogram_comes_with_what_is_logged(
    spool: Path, log: str, every: int, logged: set[tuple[str, int]]
) -> None:
    trained(log, every)
    assert histograms(spool) == logged


def test_a_watched_model_is_not_kept_alive(spool: Path) -> None:
    model = torch.nn.Linear(2, 1)
    trainyard.init().watch(model)
    known = weakref.ref(model.weight)
    del model
    gc.collect()
    assert known() is None


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"log": "weights"}, "log='weights' is none of"),
        ({"every": 0}, "every=0 is no whole number"),
        ({"model": object()}, "a object is no module"),
    ],
)
def test_what_makes_no_sense_is_refused(spool: Path, arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises((ValueError, TypeError), match=sentence):
        trainyard.init().watch(**{"model": torch.nn.Linear(1, 1), **arguments})
