"""The space of a sweep: the order of its dimensions, which are active, and its points where it has a number of them."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainyard.contract.base import JsonObject
from trainyard.spec.sweeps.models import Dimension

Space = Mapping[str, Dimension]


def ordered(space: Space) -> list[str]:
    """Return the paths such that each comes after those that its ``when`` names; a cycle's are left out."""
    found: list[str] = []
    waiting = list(space)
    while waiting:
        ready = [path for path in waiting if all(parent in found for parent in space[path].when)]
        if not ready:
            return found
        found += ready
        waiting = [path for path in waiting if path not in ready]
    return found


def allowed(condition: object) -> list[object]:
    """Return the values that an entry of ``when`` accepts: one, or those of a list."""
    return list(condition) if isinstance(condition, list) else [condition]


def active(dimension: Dimension, parameters: JsonObject) -> bool:
    """Return whether the dimension varies in a trial that has these parameters so far."""
    conditions = dimension.when.items()
    return all(path in parameters and parameters[path] in allowed(condition) for path, condition in conditions)


def num_points(dimension: Dimension) -> int | None:
    """Return how many values the dimension has; None where it has no end."""
    if dimension.values is not None:
        return len(dimension.values)
    low, high = dimension.bounds
    if dimension.log and not dimension.whole:
        return None
    step = dimension.step or (1.0 if dimension.whole else None)
    return None if step is None else int((high - low) / step + 1e-9) + 1


def point(dimension: Dimension, index: int) -> object:
    """Return the value number ``index`` of a dimension that has so many."""
    if dimension.values is not None:
        value: object = dimension.values[index]
        return value
    low, _ = dimension.bounds
    if dimension.whole:
        return int(low) + index * int(dimension.step or 1)
    return float(f"{low + index * (dimension.step or 0.0):.12g}")


def grid_size(space: Space, at_most: int) -> int:
    """Return the number of points of a space whose dimensions all have an end, ``at_most`` where there are more."""
    return _count(space, ordered(space), {}, at_most)


def nth_of_grid(space: Space, number: int) -> JsonObject | None:
    """Return the parameters of the grid's point ``number``; None past its end. The last dimension changes first."""
    paths = ordered(space)
    parameters: JsonObject = {}
    for depth, path in enumerate(paths):
        if not active(space[path], parameters):
            continue
        for index in range(num_points(space[path]) or 0):
            parameters[path] = point(space[path], index)
            below = _count(space, paths[depth + 1 :], parameters, number + 1)
            if number < below:
                break
            number -= below
        else:
            return None
    return parameters if number == 0 else None


def _count(space: Space, paths: Sequence[str], parameters: JsonObject, at_most: int) -> int:
    """Return the number of points of these dimensions, given the parameters above them."""
    total = 1
    for depth, path in enumerate(paths):
        if not active(space[path], parameters):
            continue
        size = num_points(space[path]) or 0
        if not any(path in space[below].when for below in paths[depth + 1 :]):
            total *= size
            continue
        found = 0
        for index in range(size):
            found += _count(space, paths[depth + 1 :], {**parameters, path: point(space[path], index)}, at_most)
            if total * found >= at_most:
                break
        return min(at_most, total * found)
    return min(at_most, total)


ALMOST_ONE = math.nextafter(1.0, 0.0)


def value_at(dimension: Dimension, unit: float) -> Any:
    """Return the value at ``unit``: each of a choice, and each whole number of a range, has an equal share."""
    unit = min(max(unit, 0.0), ALMOST_ONE)
    if dimension.log and not dimension.is_choice:
        (low, high), (first, last) = dimension.bounds, map(math.log, _ends(dimension))
        value = math.exp(first + unit * (last - first))
        return min(max(round(value), int(low)), int(high)) if dimension.whole else min(max(value, low), high)
    if (count := num_points(dimension)) is not None:
        return point(dimension, int(unit * count))
    low, high = dimension.bounds
    return low + unit * (high - low)


def unit_of(dimension: Dimension, value: Any) -> float:
    """Return a number at which ``value_at`` gives the value back, as near as floats are."""
    if dimension.values is not None:
        return (dimension.values.index(value) + 0.5) / len(dimension.values)
    if dimension.log:
        first, last = _ends(dimension)
        return (math.log(max(float(value), first)) - math.log(first)) / (math.log(last) - math.log(first))
    low, high = dimension.bounds
    if (count := num_points(dimension)) is None:
        return (float(value) - low) / (high - low)
    return (round((float(value) - low) / (dimension.step or 1.0)) + 0.5) / count


def _ends(dimension: Dimension) -> tuple[float, float]:
    """Return between what the values are rounded from: a whole number has its share on both sides."""
    low, high = dimension.bounds
    return (low - 0.5, high + 0.5) if dimension.whole else (low, high)


def contains(dimension: Dimension, value: Any) -> bool:
    """Return whether the value is one of this dimension: a trial may be older than the space, or made by hand."""
    if dimension.values is not None:
        return any(type(one) is type(value) and one == value for one in dimension.values)
    low, high = dimension.bounds
    return type(value) in (int, float) and low <= value <= high


def is_within(space: Mapping[str, Dimension], parameters: Mapping[str, Any]) -> bool:
    """Return whether the parameters are a point of the space."""
    for path, dimension in space.items():
        is_active = not dimension.when or active(dimension, dict(parameters))
        if is_active != (path in parameters) or (is_active and not contains(dimension, parameters[path])):
            return False
    return parameters.keys() <= space.keys()


def filled(space: Mapping[str, Dimension], choose: Callable[[str, Dimension], Any]) -> JsonObject:
    """Return parameters with a value that ``choose`` gives for each dimension that is active."""
    parameters: JsonObject = {}
    for path in ordered(space):
        if active(space[path], parameters):
            parameters[path] = choose(path, space[path])
    return parameters


def point_at(space: Mapping[str, Dimension], units: Sequence[float]) -> JsonObject:
    """Return the parameters that lie there in their ranges, by numbers from 0 to 1 in the order of the space."""
    by_path = dict(zip(ordered(space), units, strict=True))
    return filled(space, lambda path, dimension: value_at(dimension, by_path[path]))
