"""The objective over two fields: a smooth surface through the trials, blank where none is near."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from runs.sweeps.analysis.best import SpaceField, TrialPoint, complete, with_seen
from runs.sweeps.analysis.importance import Array, encode, sampled, value_at

CELLS = 32  # along a range; a choice has one cell for each
MOST = 4_000  # trials
NEAR = 0.2  # of a range: farther from every trial a cell stays blank


class Surface(NamedTuple):
    """``cells[row][column]`` is the value at ``y[row]`` and ``x[column]``; None where nothing is known."""

    x: list[float] | list[str]
    y: list[float] | list[str]
    cells: list[list[float | None]]
    num_used: int


def contour(trials: Sequence[TrialPoint], across: SpaceField, up: SpaceField) -> Surface:
    """Return the mean of the trials' values, weighted by a Gaussian of their distance (Nadaraya 1964, Watson 1964).
    Its width follows Scott's rule: the more trials, the narrower."""
    known = [one for one in complete(trials) if across.path in one.parameters and up.path in one.parameters]
    used = sampled(known, MOST)
    across, up = with_seen(across, used), with_seen(up, used)
    (x, x_shares), (y, y_shares) = _axis(across), _axis(up)
    if not used:
        return Surface(x, y, [[None] * len(x) for _ in y], 0)
    places = encode(used, [across, up])
    values = np.array([one.value for one in used], dtype=float)
    width = max(0.03, 0.25 * len(used) ** (-1 / 6))
    beside = _squares(x_shares, places[:, 0], across)
    above = _squares(y_shares, places[:, 1], up)
    return Surface(x, y, [_row(beside + squares, values, width) for squares in above], len(used))


def _axis(field: SpaceField) -> tuple[list[float] | list[str], Array]:
    if field.is_choice:
        num = len(field.choices)
        return list(field.choices), (np.arange(num) + 0.5) / num
    shares = np.linspace(0.0, 1.0, CELLS)
    return [value_at(field, float(share)) for share in shares], shares


def _squares(cells: Array, places: Array, field: SpaceField) -> Array:
    """Squared distances of each cell from each trial; another choice is out of reach."""
    apart = cells[:, None] - places[None, :]
    return np.where(np.abs(apart) < 1e-9, 0.0, np.inf) if field.is_choice else apart**2


def _row(squares: Array, values: Array, width: float) -> list[float | None]:
    weights = np.exp(-squares / (2 * width**2))
    totals = weights.sum(axis=1)
    is_known = (squares.min(axis=1) <= NEAR**2) & (totals > 0)
    means = (weights @ values) / np.where(totals > 0, totals, 1.0)
    return [float(mean) if known else None for mean, known in zip(means, is_known, strict=True)]
