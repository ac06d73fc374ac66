"""The coordinate check: with muP, activations change by as much at every width; without it they grow with it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workers.training.measuring.coordinates import coordinates, growth
from workers.training.optimizing.optimizers import make_optimizer, set_rate, set_weight_decay
from workers.training.recipes.gpt import GPT, Shape
from workers.training.recipes.width_transfer import rate_scale

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
