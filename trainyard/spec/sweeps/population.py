"""Rules of population based training for a sweep and its base spec."""

from collections.abc import Iterator

from trainyard.contract.base import JsonObject
from trainyard.spec.document import merge
from trainyard.spec.problems import Problem, show
from trainyard.spec.sections.changes import CHANGEABLE
from trainyard.spec.sections.train import Checkpoint, Train
from trainyard.spec.sweeps.models import SweepSpec

CHANGEABLE_PATHS = tuple(f"train.{name}" for name in CHANGEABLE)
MOST_KEPT = 1_000


def population_problems(spec: SweepSpec) -> Iterator[Problem]:
    """Yield what is wrong with the sweep, whatever its base is."""
    if spec.sampler.name != "population":
        return
    size, parallel = spec.sampler.size, spec.budget.parallel
    if parallel < size:
        yield Problem("budget.parallel", f"{parallel} is less than sampler.size {size}: the members train side by side")
    if spec.budget.trials < size:
        yield Problem("budget.trials", f"{spec.budget.trials} is less than sampler.size, which is {size}")
    if spec.pruner.name != "none":
        yield Problem("pruner.name", f"{spec.pruner.name} does not go with population, which stops bad trials itself")
    if not any(path in spec.space for path in CHANGEABLE_PATHS):
        yield Problem("space", f"has nothing that may change in mid-training: {', '.join(CHANGEABLE_PATHS)}")
    for path in ("train.steps", "checkpoint.restore", "changes"):
        if path in spec.space:
            yield Problem(f"space.{path}", "is the same for all members of a population")


def population_base_problems(spec: SweepSpec, base: JsonObject) -> Iterator[Problem]:
    """Yield what is wrong with the base, whose fields are valid."""
    if spec.sampler.name != "population":
        return
    task = base.get("task") or {}
    if "recipe" not in task or task["recipe"] == "communication-benchmark":
        words = "must be a recipe that trains: members go on from the checkpoints of others"
        yield Problem("base.task.recipe", f"{words}, not {show(task.get('recipe') or 'a script')}")
        return
    if base.get("changes"):
        yield Problem("base.changes", "does not go with population, which changes settings itself")
    steps = _train(base).get("steps", Train().steps)
    if spec.sampler.interval >= steps:
        yield Problem("sampler.interval", f"{spec.sampler.interval} is not less than the {steps} steps of a trial")


def population_base(spec: SweepSpec, base: JsonObject) -> JsonObject:
    """Return the base with a checkpoint and a validation at every boundary, and all checkpoints kept."""
    if spec.sampler.name != "population" or "recipe" not in (base.get("task") or {}):
        return base
    interval, train = spec.sampler.interval, _train(base)
    kept = base.get("checkpoint") or {}
    every = _at_boundaries(kept.get("every_steps", Checkpoint().every_steps), interval)
    validate = _at_boundaries(train.get("validate_every_steps", Train().validate_every_steps), interval)
    num = int(train.get("steps", Train().steps)) // every + 1
    changes = {
        "checkpoint.every_steps": every,
        "checkpoint.keep": min(MOST_KEPT, max(int(kept.get("keep", Checkpoint().keep)), num)),
        "train.validate_every_steps": validate,
    }
    return merge(base, changes)


def _train(base: JsonObject) -> JsonObject:
    found: JsonObject = base.get("train") or {}
    return found


def _at_boundaries(every: int, interval: int) -> int:
    """Return how often something happens that has to happen at each boundary."""
    return every if every and interval % every == 0 else interval
