"""Checking a sweep against its base spec: each end of each dimension is laid over the base and parsed as a run is."""

from collections.abc import Iterator

from trainyard.contract.base import JsonObject
from trainyard.spec.parse import field_problems
from trainyard.spec.problems import Problem, SpecError, show
from trainyard.spec.sweeps.models import Dimension, SweepSpec
from trainyard.spec.sweeps.overlay import ARGUMENTS, ENVIRONMENT, SEED, trial_document
from trainyard.spec.sweeps.space import allowed
from trainyard.spec.sweeps.units import filled

MOST_PROBES = 50  # values of one dimension
COUNTING_SAMPLES = ("image-classifier", "tabular", "communication-benchmark")  # recipes without a language


def space_problems(spec: SweepSpec, base: JsonObject) -> list[Problem]:
    """Return what the base spec refuses: of itself, and of the values that fields vary over. Rules across fields are
    not looked at: which values go together is known for a trial."""
    try:
        own = field_problems(trial_document(spec, base, 0, {}))
    except SpecError as error:
        own = error.errors
    # A field that varies may be missing in the base, or have a value there that nobody uses.
    if own := [one for one in own if one.path not in spec.space]:
        return [Problem(f"base.{one.path}" if one.path else "base", one.message) for one in own]
    found: list[Problem] = []
    task = base.get("task")
    if spec.seeds > 1 and not (isinstance(task, dict) and "recipe" in task):
        found.append(Problem("seeds", f"{spec.seeds} needs {SEED}, which a script has not; accepted: 1"))
    if spec.pruner.by == "tokens" and isinstance(task, dict) and task.get("recipe") in COUNTING_SAMPLES:
        found.append(Problem("pruner.by", f"{task['recipe']} has samples and no tokens; accepted here: steps, time"))
    for path, dimension in spec.space.items():
        found += _of_dimension(spec, base, path, dimension)
    return found


def probes(dimension: Dimension) -> Iterator[object]:
    """Yield the values at which a dimension is tried: both ends of a range, each value of a choice."""
    if dimension.values is not None:
        yield from dimension.values[:MOST_PROBES]
        return
    for bound in dimension.bounds:
        yield int(bound) if dimension.whole else bound


def first_point(spec: SweepSpec) -> JsonObject:
    """Return parameters at the first value of each dimension."""
    return filled(spec.space, lambda _, dimension: next(probes(dimension)))


def _of_dimension(spec: SweepSpec, base: JsonObject, path: str, dimension: Dimension) -> list[Problem]:
    conditions: JsonObject = {parent: allowed(one)[0] for parent, one in dimension.when.items()}
    for value in probes(dimension):
        try:
            problems = field_problems(trial_document(spec, base, 0, {**conditions, path: value}))
        except SpecError as error:
            problems = error.errors
        for problem in problems:
            if _is_about(problem.path, path):
                below = problem.path.removeprefix(path).strip(".") if problem.path.startswith(path) else ""
                words = f"{below}: {problem.message}" if below else problem.message
                shown = "" if show(value) in words else f" (with {show(value)})"
                return [Problem(f"space.{path}", f"{words}{shown}")]
    return []


def _is_about(problem: str, path: str) -> bool:
    """Return whether a problem is of the field that varies, of a part of it, or of a list or map that it belongs to."""
    if path.startswith(ARGUMENTS):
        return problem.startswith("task.arguments")
    if path.startswith(ENVIRONMENT):
        return problem.startswith("task.environment")
    return problem == path or problem.startswith(f"{path}.") or path.startswith(f"{problem}.")
