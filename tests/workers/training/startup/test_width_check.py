"""The coordinate check: with muP, activations change by as much at every width; without it they grow with it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from trainyard.contract.base import convert
from trainyard.contract.facts import CoordinateFacts
from trainyard.contract.records import Checkpoint, Facts
from trainyard.spec import RecipeSpec, parse_spec
from workers.training.optimizing.optimizers import make_optimizer, set_rate, set_weight_decay
from workers.training.recipes.gpt import GPT, Shape, rate_scale
from workers.training.startup.width_check import base_of, coordinates, growth, report_width_check

WIDTHS = (32, 64, 128, 256)
PLAIN = Shape(layers=1, width=64, heads=2, context=4, vocabulary=8)
WIDE = replace(PLAIN, base_width=16)


def growths(base_width: int | None, optimizer: str) -> dict[str, float]:
    by_width = {width: coordinates(width, base_width, optimizer, steps=3) for width in WIDTHS}
    return {name: growth({width: one[name] for width, one in by_width.items()}) for name in by_width[WIDTHS[0]]}


def test_activations_change_by_as_much_at_every_width_and_without_mup_they_grow() -> None:
    found, plain = growths(WIDTHS[0], "adamw"), growths(None, "adamw")
    # Scores are sums of terms that are unlike at first: with muP they begin small and do not grow.
    assert all(power < 0.15 for power in found.values()), found
    assert all(power > -0.25 for name, power in found.items() if name != "scores"), found
    assert plain["logits"] > 0.5 and plain["scores"] > 0.5 and plain["block"] > 0.3, plain


def test_at_the_base_width_nothing_is_another() -> None:
    assert coordinates(64, 64) == pytest.approx(coordinates(64, None))


def test_rates_and_decay_of_a_wider_model() -> None:
    model = GPT(WIDE)
    optimizer = make_optimizer(
        "adamw", [model], [], weight_decay=0.1, rate_scale=lambda name: rate_scale(name, 4.0, "adamw")
    )
    set_rate(optimizer, 0.01)
    names = {parameter: name for name, parameter in model.named_parameters()}
    rates = {names[one]: group["lr"] for group in optimizer.param_groups for one in group["params"]}
    assert rates["embedding.weight"] == rates["norm.weight"] == 0.01
    assert rates["head.weight"] == rates["layers.0.mlp.down.weight"] == 0.0025
    for decay in (0.1, 0.3):
        forgets = [group["lr"] * group["weight_decay"] for group in optimizer.param_groups if group["decays"]]
        assert forgets == pytest.approx([0.01 * decay] * len(forgets)) and len(forgets) > 1
        set_weight_decay(optimizer, 0.3)
    assert rate_scale("embedding.weight", 4.0, "sgd") == 4.0 and rate_scale("layers.0.mlp.up.weight", 4.0, "sgd") == 1.0


def test_scores_are_divided_by_the_width_of_a_head() -> None:
    assert [GPT(one).layers["0"].attention.score_scale for one in (WIDE, PLAIN)] == [0.5, 1.0]  # type: ignore[union-attr]


class Kept:
    """Keeps what a rank reports."""

    def __init__(self) -> None:
        self.facts: list[Checkpoint | Facts] = []

    def report(self, record: Checkpoint | Facts) -> None:
        self.facts.append(record)


def test_a_run_with_a_base_width_reports_the_check_and_keeps_its_random_state() -> None:
    task = {"recipe": "language-model", "model": {"width": 256, "heads": 2, "base_width": 64}}
    spec = parse_spec({"name": "wide", "task": task, "train": {"steps": 10}})
    assert isinstance(spec, RecipeSpec)
    kept, before = Kept(), torch.get_rng_state()
    report_width_check(spec, kept)
    assert torch.equal(torch.get_rng_state(), before)
    (record,) = kept.facts
    assert isinstance(record, Facts) and record.name == "coordinates"
    found = convert(record.data, CoordinateFacts)
    assert found.widths == [64, 128, 256] and max(found.powers.values()) < 0.2 and len(found.changes["logits"]) == 3
    report_width_check(parse_spec({"name": "plain", "task": {"recipe": "language-model"}}), kept)  # type: ignore[arg-type]
    assert len(kept.facts) == 1 and [base_of(heads) for heads in (1, 4, 12, 32, 64)] == [64, 64, 48, 128, 256]
