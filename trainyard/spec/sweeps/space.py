"""The space of a sweep: the order of its dimensions, which are active, and its points where it has a number of them."""

from collections.abc import Mapping, Sequence

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
        if not _is_parent(space, path, paths[depth + 1 :]):
            total *= size
            continue
        found = 0
        for index in range(size):
            found += _count(space, paths[depth + 1 :], {**parameters, path: point(space[path], index)}, at_most)
            if total * found >= at_most:
                break
        return min(at_most, total * found)
    return min(at_most, total)


def _is_parent(space: Space, path: str, below: Sequence[str]) -> bool:
    return any(path in space[one].when for one in below)
