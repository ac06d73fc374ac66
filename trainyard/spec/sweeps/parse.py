"""From a document to a SweepSpec: the fields, and the rules across them. Each end of a dimension is tried."""

import json
import math
from collections.abc import Iterator

from pydantic import ValidationError

from trainyard.contract.base import JsonObject
from trainyard.spec.parse import field_problems, refuse_unsafe
from trainyard.spec.problems import Problem, SpecError, problems_of, show
from trainyard.spec.sweeps.models import Budget, Dimension, Objective, Pruner, Sampler, SweepSpec
from trainyard.spec.sweeps.overlay import ARGUMENTS, ENVIRONMENT, SEED, trial_document
from trainyard.spec.sweeps.population import population_problems
from trainyard.spec.sweeps.space import allowed, filled, num_points, ordered
from trainyard.spec.values.fields import Part

FIXED = ("name", "project", "tags", "array")  # what every trial of a sweep has alike
ONE_OBJECTIVE = ("gp", "cmaes", "population")
SECTIONS: dict[str, type[Part]] = {
    "": SweepSpec,
    "budget": Budget,
    "sampler": Sampler,
    "pruner": Pruner,
    "objective": Objective,
}


def parse_sweep(document: object) -> SweepSpec:
    """Return the SweepSpec that ``document`` describes; its base and the values of its space are not looked at yet.
    Raises SpecError, and nothing else, with all problems found."""
    if not isinstance(document, dict):
        raise SpecError([Problem("", f"a sweep is a map with a base, a space and an objective, not {show(document)}")])
    refuse_unsafe(document)
    try:
        spec = SweepSpec.model_validate(document)
    except ValidationError as error:
        raise SpecError(_field_problems(error, is_single=isinstance(document.get("objective"), dict))) from None
    if problems := list(_rule_problems(spec)):
        raise SpecError(problems)
    return spec


def sweep_schema() -> JsonObject:
    """Return the JSON Schema of a sweep. A base is a spec, or names a job."""
    schema: JsonObject = SweepSpec.model_json_schema(by_alias=True)
    objectives = schema["properties"]["objective"]
    schema["properties"]["objective"] = {"anyOf": [objectives["items"], objectives]}
    for name in ("sampler", "pruner"):
        names = schema["$defs"][name.capitalize()]["properties"]["name"]
        schema["properties"][name] = {"anyOf": [{"type": "string", "enum": names["enum"]}, schema["properties"][name]]}
    return schema


def _field_problems(error: ValidationError, *, is_single: bool) -> list[Problem]:
    accepted = {path: _names_of(kind) for path, kind in SECTIONS.items()}
    places = {".".join(map(str, detail["loc"][:-1])) for detail in error.errors(include_url=False)}
    accepted |= {place: _names_of(Dimension) for place in places if place.startswith("space.")}
    accepted |= {place: accepted["objective"] for place in places if place.startswith("objective.")}
    found = problems_of(error, accepted)
    problems = [one._replace(message=one.message.replace("a field of a spec", "a field of a sweep")) for one in found]
    return [it._replace(path=it.path.replace("objective.0", "objective", 1)) if is_single else it for it in problems]


def _names_of(kind: type[Part]) -> list[str]:
    return [info.alias or name for name, info in kind.model_fields.items()]


def _rule_problems(spec: SweepSpec) -> Iterator[Problem]:
    if "job" in spec.base and set(spec.base) != {"job"}:
        yield Problem("base", "has a job and other fields; accepted: a spec, or {job: id} alone")
    elif "job" in spec.base and not isinstance(spec.base["job"], str):
        yield Problem("base.job", f"must be the id of a job, not {show(spec.base['job'])}")
    if not spec.space:
        yield Problem("space", "is empty: name at least one field that varies")
    for path, dimension in spec.space.items():
        yield from _dimension_problems(f"space.{path}", dimension)
    yield from _path_problems(spec)
    yield from _condition_problems(spec)
    yield from _method_problems(spec)
    yield from population_problems(spec)


def _dimension_problems(path: str, dimension: Dimension) -> Iterator[Problem]:
    if dimension.values is not None:
        yield from _choice_problems(path, dimension, dimension.values)
        return
    if dimension.low is None or dimension.high is None:
        yield Problem(path, "needs low and high, or values")
        return
    low, high = dimension.bounds
    if not math.isfinite(high - low):
        yield Problem(path, f"is wider than numbers are: {low:g} to {high:g}")
    elif low > high:
        yield Problem(f"{path}.low", f"{low:g} is more than high, which is {high:g}")
    elif low == high:
        yield Problem(path, f"has one point, {low:g}: write it into the base spec instead")
    if dimension.log and low <= 0:
        yield Problem(f"{path}.low", f"must be more than 0 with log, not {low:g}")
    if dimension.whole:
        for name, bound in (("low", low), ("high", high), ("step", dimension.step or 1.0)):
            if bound != math.floor(bound):
                yield Problem(f"{path}.{name}", f"must be a whole number with int, not {bound:g}")
    if dimension.step is not None and dimension.log:
        yield Problem(f"{path}.step", f"{dimension.step:g} does not go with log: leave one of them out")
    elif dimension.step is not None and low < high and dimension.step > high - low:
        yield Problem(f"{path}.step", f"{dimension.step:g} is more than from low to high, so there is one point")


def _choice_problems(path: str, dimension: Dimension, values: list[object]) -> Iterator[Problem]:
    extra = [name for name in ("low", "high", "step") if getattr(dimension, name) is not None]
    extra += [word for word, is_set in (("log", dimension.log), ("int", dimension.whole)) if is_set]
    for name in extra:
        yield Problem(f"{path}.{name}", "does not go with values: leave one of them out")
    for index, value in enumerate(values):
        if not _is_plain(value):
            yield Problem(f"{path}.values.{index}", f"must be plain JSON, not {show(value)}")
            return
    texts = [json.dumps(value, sort_keys=True) for value in values]
    if twice := next((text for place, text in enumerate(texts) if text in texts[:place]), None):
        yield Problem(f"{path}.values", f"has {twice} twice")
    elif not values:
        yield Problem(f"{path}.values", "is empty: name at least two")
    elif len(values) == 1:
        yield Problem(f"{path}.values", f"has one point, {show(values[0])}: write it into the base spec instead")


def _is_plain(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _path_problems(spec: SweepSpec) -> Iterator[Problem]:
    paths = sorted(spec.space)
    for path in paths:
        if path.split(".")[0] in FIXED:
            yield Problem(f"space.{path}", "is the same for all trials of a sweep")
        if path == "train.seed" and spec.seeds > 1:
            yield Problem(f"space.{path}", f"varies by itself with seeds, which is {spec.seeds}")
        if path.startswith(ARGUMENTS):
            continue  # an option may have dots in its name
        for other in paths:
            if other.startswith(f"{path}."):
                yield Problem(f"space.{other}", f"lies inside {path}, which varies too: leave one of them out")


def _condition_problems(spec: SweepSpec) -> Iterator[Problem]:
    for path, dimension in spec.space.items():
        for parent, condition in dimension.when.items():
            place = f"space.{path}.when.{parent}"
            if parent not in spec.space:
                yield Problem(place, f"{parent} does not vary; accepted: {', '.join(sorted(spec.space))}")
                continue
            values = spec.space[parent].values
            if values is None:
                yield Problem(place, f"{parent} is a range; a condition needs a field with values")
                continue
            for value in allowed(condition):
                if value not in values:
                    yield Problem(place, f"{show(value)} is none of the values of {parent}: {show(values)}")
    if cycle := sorted(set(spec.space) - set(ordered(spec.space))):
        known = [path for path in cycle if all(parent in spec.space for parent in spec.space[path].when)]
        if known:
            yield Problem(f"space.{known[0]}.when", f"goes in a circle among {', '.join(cycle)}")


def _method_problems(spec: SweepSpec) -> Iterator[Problem]:
    name = spec.sampler.name
    metrics = [one.metric for one in spec.objectives]
    if len(set(metrics)) < len(metrics):
        yield Problem("objective", f"names a metric twice: {', '.join(metrics)}")
    if spec.is_multiple and name in ONE_OBJECTIVE:
        yield Problem("sampler.name", f"{name} takes one objective, and {len(metrics)} are named; accepted: nsga2, tpe")
    if spec.is_multiple and spec.pruner.name != "none":
        yield Problem("pruner.name", f"{spec.pruner.name} takes one objective, and {len(metrics)} are named")
    if spec.pruner.max is not None and spec.pruner.max < spec.pruner.min:
        yield Problem("pruner.max", f"{spec.pruner.max} is less than pruner.min, which is {spec.pruner.min}")
    if spec.pruner.name == "hyperband" and spec.pruner.max is None:
        yield Problem("pruner.max", "is required for hyperband: the last step of a trial")
    for path, dimension in spec.space.items():
        is_whole = dimension.is_choice or None not in (dimension.low, dimension.high)
        if name == "grid" and is_whole and num_points(dimension) is None:
            yield Problem(f"space.{path}", "has no end, and a grid needs one: give a step, int, or values")
        if name == "cmaes" and dimension.is_choice:
            yield Problem(f"space.{path}.values", "is a choice, and cmaes takes ranges; accepted with it: tpe")
        if name in ("cmaes", "gp") and dimension.when:
            yield Problem(f"space.{path}.when", f"{name} takes no conditions; accepted with them: tpe, random, grid")
    if spec.seeds > 1 and name == "population":
        yield Problem("seeds", f"{spec.seeds} does not go with the sampler population: 1")


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
    array = base.get("array") or {}
    if array.get("size") and array.get("index", -1) < 0:
        words = f"{array['size']} would launch runs that are in no trial; accepted here: 0, or one array.index of it"
        found.append(Problem("base.array.size", words))
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
