"""Values of dimensions as numbers from 0 to 1, and back."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from trainyard.contract.base import JsonObject
from trainyard.spec.sweeps.models import Dimension
from trainyard.spec.sweeps.space import active, ordered

ALMOST_ONE = math.nextafter(1.0, 0.0)


def value_at(dimension: Dimension, unit: float) -> Any:
    """Return the value at ``unit``: each of a choice, and each whole number of a range, has an equal share."""
    unit = min(max(unit, 0.0), ALMOST_ONE)
    if dimension.values is not None:
        return dimension.values[int(unit * len(dimension.values))]
    low, high = dimension.bounds
    step = dimension.step or (1.0 if dimension.whole else None)
    if dimension.log:
        first, last = (low - 0.5, high + 0.5) if dimension.whole else (low, high)
        value = math.exp(math.log(first) + unit * (math.log(last) - math.log(first)))
        return min(max(round(value), int(low)), int(high)) if dimension.whole else min(max(value, low), high)
    if step is None:
        return low + unit * (high - low)
    count = int((high - low) / step + 1e-9) + 1
    place = int(unit * count)
    return int(low) + place * int(step) if dimension.whole else float(f"{low + place * step:.12g}")


def unit_of(dimension: Dimension, value: Any) -> float:
    """Return a number at which ``value_at`` gives the value back, as near as floats are."""
    if dimension.values is not None:
        return (dimension.values.index(value) + 0.5) / len(dimension.values)
    low, high = dimension.bounds
    step = dimension.step or (1.0 if dimension.whole else None)
    if dimension.log:
        first, last = (low - 0.5, high + 0.5) if dimension.whole else (low, high)
        return (math.log(max(float(value), first)) - math.log(first)) / (math.log(last) - math.log(first))
    if step is None:
        return (float(value) - low) / (high - low)
    count = int((high - low) / step + 1e-9) + 1
    return (round((float(value) - low) / step) + 0.5) / count


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
        if is_active != (path in parameters) or (is_active and not contains(space[path], parameters[path])):
            return False
    return all(path in space for path in parameters)


def filled(space: Mapping[str, Dimension], choose: Callable[[str, Dimension], Any]) -> JsonObject:
    """Return parameters with a value that ``choose`` gives for each dimension that is active."""
    parameters: JsonObject = {}
    for path in ordered(space):
        if active(space[path], parameters):
            parameters[path] = choose(path, space[path])
    return parameters
