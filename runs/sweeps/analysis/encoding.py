"""Parameters of trials as numbers from 0 to 1: logarithmic fields by their logarithm, choices by their place."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from runs.sweeps.analysis.trials import SpaceField, TrialLike, is_number, text_of

Array = npt.NDArray[np.float64]

ABSENT = 1.1  # beside the range: a field that the trial does not have, since its condition is not met
WIDEST = 1.2  # of a column with such trials; of others it is 1


def encode(trials: Sequence[TrialLike], fields: Sequence[SpaceField]) -> Array:
    """Return a row for each trial and a column for each field."""
    rows = [[share_of(field, one.parameters.get(field.path)) for field in fields] for one in trials]
    return np.array(rows, dtype=float).reshape(len(trials), len(fields))


def widths(encoded: Array) -> Array:
    """Width of each column's domain."""
    return np.where((encoded > 1).any(axis=0), WIDEST, 1.0)


def share_of(field: SpaceField, value: object) -> float:
    """Return the value's place in the field's range, from 0 to 1; a choice has a cell as wide as the others."""
    if field.is_choice:
        text = text_of(value)
        return (field.choices.index(text) + 0.5) / len(field.choices) if text in field.choices else ABSENT
    if not is_number(value):
        return ABSENT
    low, high = _scaled(field, field.low), _scaled(field, field.high)
    return (_scaled(field, float(value)) - low) / (high - low) if high > low else 0.5


def value_at(field: SpaceField, share: float) -> float:
    """Return the number of a range that lies there."""
    low, high = _scaled(field, field.low), _scaled(field, field.high)
    at = low + share * (high - low)
    return math.exp(at) if field.is_log else at


def _scaled(field: SpaceField, value: float) -> float:
    return math.log(max(value, 1e-300)) if field.is_log else value
