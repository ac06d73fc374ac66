"""Numbers as JSON has them: values that are not finite travel as words."""

import math

import numpy as np

from runs.records.metrics.codec import Floats


def word_of(value: float) -> str:
    """Return the JSON word of a value that is not finite, and "" for every other."""
    if math.isfinite(value):
        return ""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def numbers(values: Floats) -> list[float | str]:
    """Return the values as JSON has them: what is not finite as a word that JavaScript's Number() reads."""
    out: list[float | str] = values.tolist()
    for index in np.flatnonzero(~np.isfinite(values)):
        out[index] = word_of(float(values[index]))
    return out
