"""The coordinate check of a run whose rate muP carries over from another width, for its page.

Small models stand in for the run's own, with as many heads: what is checked is how rates and first weights go with the
width, and that takes less than a second on them.
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from trainyard.contract.facts import COORDINATES, CoordinateFacts
from trainyard.spec import RecipeSpec
from trainyard.spec.sections.tasks import LanguageModelTask
from workers.training.loop import kept_random_state
from workers.training.metrics import Reports, facts_record
from workers.training.optimizing.optimizers import make_optimizer, set_rate
from workers.training.recipes.gpt import GPT, Attention, Shape, rate_scale

LAYERS, HEADS, CONTEXT, VOCABULARY, ROWS = 2, 4, 32, 256, 8
STEPS = 4
RATES = {"adamw": 0.01, "sgd": 0.1}
SEED = 0

Sizes = dict[str, float]  # of an activation by its name: the mean of absolute values over all coordinates
BASE, WIDEST_BASE = 64, 128
LEAST_HEAD = 4
DOUBLINGS = 3


def report_width_check(spec: RecipeSpec, metrics: Reports) -> None:
    """Check and report, where the spec names a base width. The random state stays as it was."""
    task = spec.task
    if not isinstance(task, LanguageModelTask) or not task.model.base_width:
        return
    base = base_of(task.model.heads)
    if base > WIDEST_BASE:  # so many heads need wide models, for which nobody would like to wait
        return
    with kept_random_state(torch.device("cpu")):
        metrics.report(facts_record(COORDINATES, checked(base, task.model.heads, spec.train.optimizer)))


def base_of(heads: int) -> int:
    """Return the least width that is compared: a multiple of the heads."""
    return heads * max(LEAST_HEAD, BASE // heads // 2 * 2)


def checked(base: int, heads: int, optimizer: str) -> CoordinateFacts:
    """Return by how much activations change at the base width and its doubles."""
    widths = [base * 2**place for place in range(DOUBLINGS)]
    by_width = {width: coordinates(width, base, optimizer, heads=heads) for width in widths}
    changes = {name: [by_width[width][name] for width in widths] for name in by_width[base]}
    powers = {name: growth(dict(zip(widths, sizes, strict=True))) for name, sizes in changes.items()}
    return CoordinateFacts(
        base_width=base, optimizer=optimizer, steps=STEPS, widths=widths, changes=changes, powers=powers
    )


# The coordinate check of muP (Yang et al. 2022, appendix D.1): after a few steps, activations have changed by as much
# in a wide model as in a narrow one. Where they grow with the width, a rate that is right for one is wrong for the
# other.


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

    def keep(name: str, _module: nn.Module, _inputs: object, output: torch.Tensor) -> None:
        found[name] = output

    handles = [one.register_forward_hook(partial(keep, name)) for name, one in watched.items() if one is not None]
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
