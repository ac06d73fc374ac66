"""Explore: other values of the hyperparameters that may change in mid-training (Jaderberg et al. 2017, section 4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from runs.populations.members import CHANGEABLE_PATHS
from trainyard.contract.base import JsonObject
from trainyard.spec.sweeps import Dimension, active, ordered
from trainyard.spec.sweeps.models import Sampler
from trainyard.spec.sweeps.units import value_at

Space = Mapping[str, Dimension]


def changeable(space: Space, parameters: Mapping[str, Any]) -> list[str]:
    """Return the paths that may change in a trial with these parameters."""
    return [path for path in ordered(space) if path in CHANGEABLE_PATHS and path in parameters]


def explored(settings: Sampler, space: Space, parameters: Mapping[str, Any], rng: np.random.Generator) -> JsonObject:
    """Return the parameters with each that may change drawn anew, or moved: by a factor, or to the next choice."""
    found: JsonObject = dict(parameters)
    for path in changeable(space, parameters):
        # Both are always drawn, so that one parameter's fate does not shift the randomness of the next.
        is_drawn, unit, pick = rng.random() < settings.resample, float(rng.random()), float(rng.random())
        if settings.explore == "resample" or is_drawn:
            found[path] = value_at(space[path], unit)
        else:
            found[path] = moved(space[path], found[path], settings.factors, pick)
    return found


def moved(dimension: Dimension, value: Any, factors: list[float], pick: float) -> Any:
    """Return the value times one of the factors, as the range has it; of a choice a neighbour."""
    if dimension.values is not None:
        if value not in dimension.values:
            return dimension.values[int(pick * len(dimension.values))]
        place = dimension.values.index(value) + (1 if pick >= 0.5 else -1)
        return dimension.values[min(max(place, 0), len(dimension.values) - 1)]
    return fitted(dimension, float(value) * factors[int(pick * len(factors))])


def fitted(dimension: Dimension, value: float) -> Any:
    """Return the nearest value of the range."""
    low, high = dimension.bounds
    value = min(max(value, low), high)
    step = dimension.step or (1.0 if dimension.whole else None)
    if step is not None and not dimension.log:
        places = int((high - low) / step + 1e-9)
        value = low + min(round((value - low) / step), places) * step
    if dimension.whole:
        return min(max(round(value), int(low)), int(high))
    return value if step is None else float(f"{value:.12g}")


def anew(space: Space, rng: np.random.Generator) -> JsonObject:
    """Return a random point of the space."""
    found: JsonObject = {}
    for path in ordered(space):
        unit = float(rng.random())
        if active(space[path], found):
            found[path] = value_at(space[path], unit)
    return found
