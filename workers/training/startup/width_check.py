"""The coordinate check of a run whose rate muP carries over from another width, for its page.

Small models stand in for the run's own, with as many heads: what is checked is how rates and first weights go with the
width, and that takes less than a second on them.
"""

from __future__ import annotations

import torch

from trainyard.contract.facts import COORDINATES, CoordinateFacts
from trainyard.spec import RecipeSpec
from trainyard.spec.sections.tasks import LanguageModelTask
from workers.training.loop import kept_random_state
from workers.training.measuring.coordinates import STEPS, coordinates, growth
from workers.training.metrics import Reports, facts_record

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
