"""The coordinate check of muP (Yang et al. 2022, appendix D.1): after a few steps, activations have changed by as much
in a wide model as in a narrow one. Where they grow with the width, a rate that is right for one is wrong for the other.

``python -m workers.training.measuring.coordinates`` prints them with and without muP.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from workers.training.optimizing.optimizers import make_optimizer, set_rate
from workers.training.recipes.gpt import GPT, Attention, Shape
from workers.training.recipes.width_transfer import OPTIMIZERS, rate_scale

LAYERS, HEADS, CONTEXT, VOCABULARY, ROWS = 2, 4, 32, 256, 8
WIDTHS, STEPS = (64, 128, 256, 512), 4
RATES = {"adamw": 0.01, "sgd": 0.1}
SEED = 0

Sizes = dict[str, float]  # of an activation by its name: the mean of absolute values over all coordinates


def coordinates(
    width: int, base_width: int | None, optimizer: str = "adamw", steps: int = STEPS, heads: int = HEADS
) -> Sizes:
    """Return by how much the activations of a GPT of that width have changed after some steps on one batch."""
    torch.manual_seed(SEED)
    shape = Shape(LAYERS, width, heads, CONTEXT, VOCABULARY, base_width=base_width)
    model = GPT(shape)
    tokens = torch.randint(VOCABULARY, (ROWS, CONTEXT + 1), generator=torch.Generator().manual_seed(SEED))
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    trained = make_optimizer(
        optimizer, [model], [], weight_decay=0.0, rate_scale=lambda name: rate_scale(name, shape.width_ratio, optimizer)
    )
    set_rate(trained, RATES[optimizer])
    before = activations(model, inputs)
    for _ in range(steps):
        trained.zero_grad()
        F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()).backward()  # type: ignore[no-untyped-call]
        trained.step()
    after = activations(model, inputs)
    return {name: (after[name] - before[name]).abs().mean().item() for name in after}


@torch.no_grad()
def activations(model: GPT, inputs: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return what flows out of the parts of the last block, the scores of its attention, and the logits."""
    found: dict[str, torch.Tensor] = {}
    block: Any = list(model.layers.values())[-1]
    watched = {
        "embedding": model.embedding, "attention": block.attention, "mlp up": block.mlp.up, "mlp": block.mlp,
        "block": block, "norm": model.norm, "logits": model.head,
    }  # fmt: skip

    def keep(name: str) -> Any:
        def hook(_module: nn.Module, _inputs: object, output: torch.Tensor) -> None:
            found[name] = output

        return hook

    handles = [one.register_forward_hook(keep(name)) for name, one in watched.items() if one is not None]
    attention: Attention = block.attention
    attend = attention.attend

    def scored(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        found["scores"] = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        return attend(query, key, value)

    attention.attend = scored  # type: ignore[method-assign]
    model(inputs)
    del attention.attend  # the class's own is there again
    for handle in handles:
        handle.remove()
    return found


def growth(sizes: Mapping[int, float]) -> float:
    """Return the power of the width with which a size grows: the slope of a line through their logarithms."""
    pairs = [(math.log(width), math.log(max(size, 1e-30))) for width, size in sizes.items()]
    middle, height = (sum(one[place] for one in pairs) / len(pairs) for place in (0, 1))
    above = sum((x - middle) * (y - height) for x, y in pairs)
    return above / sum((x - middle) ** 2 for x, _ in pairs)


def table(widths: Sequence[int], base_width: int | None, optimizer: str) -> list[str]:
    """Return the lines of a table: an activation each, its change at each width, and the power of its growth."""
    by_width = {width: coordinates(width, base_width, optimizer) for width in widths}
    heading = f"{'width':12}" + "".join(f"{width:>10}" for width in widths) + "    grows as width to the"
    lines = [heading]
    for name in by_width[widths[0]]:
        row = {width: sizes[name] for width, sizes in by_width.items()}
        lines.append(f"{name:12}" + "".join(f"{size:10.4f}" for size in row.values()) + f"{growth(row):10.2f}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m workers.training.measuring.coordinates")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="adamw")
    parser.add_argument("--widths", default=",".join(map(str, WIDTHS)), help="the first is the base width")
    given = parser.parse_args()
    widths = [int(width) for width in given.widths.split(",")]
    for title, base_width in ((f"muP, base_width {widths[0]}", widths[0]), ("without muP", None)):
        print(f"{title}: change of activations after {STEPS} steps of {given.optimizer}")
        print("\n".join(table(widths, base_width, given.optimizer)), end="\n\n")


if __name__ == "__main__":
    main()
