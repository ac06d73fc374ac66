"""Importance of each field of the space for the objective, with error bars.

Two ways, since each misleads somewhere: fANOVA says which share of the variance a field explains alone, over the whole
space; permutation how much worse a forest predicts trials that it has not seen once the field's values are shuffled.
"""

import math
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from runs.sweeps.analysis.best import COMPLETE, PRUNED, RUNNING, SpaceField, TrialPoint, is_number, text_of, with_seen
from trainyard.contract.answers.sweeps import FieldImportance, Importance

Array = npt.NDArray[np.float64]

ABSENT = 1.1  # beside the range: a field that the trial does not have, since its condition is not met
WIDEST = 1.2  # of a column with such trials; of others it is 1
LEAST, ENOUGH = 4, 20  # trials: below the first nothing is computed, below the second there is a warning
MOST = 1_000  # trials that are looked at: more cost time and move the figures within their error
NEEDED = "Importance needs scikit-learn on the server: pip install 'trainyard[data]'."
NUM_TREES, NUM_SHUFFLES, NUM_PARTS, SEED = 48, 8, 2, 0
HOW_FAR = "how far it went"  # a field beside those of the space: the share of the steps of the longest
STATES = {COMPLETE: "complete", PRUNED: "stopped early", RUNNING: "running"}


def importance(trials: Sequence[TrialPoint], fields: Sequence[SpaceField], *, noun: str = "trial") -> Importance:
    """Every trial with a value counts. Where they went unequally far, ``HOW_FAR`` among their parameters and ``fields``
    explains what that does. The same trials give the same figures; a permutation may come out below 0. Needs
    scikit-learn."""
    known = [one for one in trials if one.value is not None and math.isfinite(one.value)]
    num_complete = sum(one.state == COMPLETE for one in known)
    used = sampled(known, MOST)
    varied = [one for one in (with_seen(one, used) for one in fields) if _is_varied(one, used)]
    targets = np.array([one.value for one in used], dtype=float)
    found = Importance(
        fields=[], interactions=0.0, num_complete=num_complete, num_reported=len(known), num_used=len(used),
        sentence=_why_not(len(known), varied, targets, noun) or (NEEDED if find_spec("sklearn") is None else ""),
    )  # fmt: skip
    if found["sentence"]:
        return found
    columns = encode(used, varied)
    alone, alone_error = _fanova(columns, targets)
    shuffled, shuffled_error = _permutation(columns, targets)
    figures = zip(*(one.tolist() for one in (alone, alone_error, shuffled, shuffled_error)), strict=True)
    fields_found = [
        FieldImportance(path=one.path, fanova=share, fanova_error=error, permutation=loss, permutation_error=spread)
        for one, (share, error, loss, spread) in zip(varied, figures, strict=True)
    ]
    found["fields"] = sorted(fields_found, key=lambda one: (-one["fanova"], one["path"]))
    found["interactions"], found["sentence"] = max(0.0, 1.0 - float(alone.sum())), _words(known, len(used), noun)
    return found


def sampled(trials: Sequence[TrialPoint], most: int) -> list[TrialPoint]:
    """Return at most so many of them, by chance and in their order."""
    if len(trials) <= most:
        return list(trials)
    places = np.random.default_rng(SEED).choice(len(trials), most, replace=False)
    return [trials[place] for place in np.sort(places)]


def _is_varied(field: SpaceField, trials: Sequence[TrialPoint]) -> bool:
    return len({text_of(one.parameters.get(field.path)) for one in trials}) > 1


def _why_not(num: int, varied: Sequence[SpaceField], targets: Array, noun: str) -> str:
    if num < LEAST:
        return f"Importance needs at least {LEAST} {noun}s with a value; there {'is' if num == 1 else 'are'} {num}."
    if all(one.path == HOW_FAR for one in varied):
        return f"Every {noun} had the same values, so nothing can be said of the fields."
    return f"Every {noun} reached the same value: no field made a difference." if float(np.ptp(targets)) == 0 else ""


def _words(known: Sequence[TrialPoint], num_used: int, noun: str) -> str:
    """The sentences about what was looked at: how many, in which states, and what that means."""
    counts = Counter(STATES.get(one.state, "failed") for one in known)
    states = ", ".join(f"{num:,} {state}" for state, num in counts.most_common())
    found = [f"From the {len(known):,} {noun}s that reported a value{f': {states}' if len(counts) > 1 else ''}."]
    if len(counts) > 1:
        found.append("How far each went counts as a field of its own.")
    if len(known) < ENOUGH:
        found.append(f"Below {ENOUGH}, chance decides much of this.")
    if num_used < len(known):
        found.append(f"Computed from {num_used:,} of them, drawn by chance, to answer in time.")
    return " ".join(found)


def _fanova(columns: Array, targets: Array) -> tuple[Array, Array]:
    domain = widths(columns)
    trees = (boxes_of(one.tree_, domain) for one in _forest(columns, targets).estimators_)
    found = [shares for one in trees if (shares := fanova_shares(one, domain)) is not None]
    if not found:
        return np.zeros(columns.shape[1]), np.zeros(columns.shape[1])
    return np.mean(found, axis=0), np.std(found, axis=0)


def _permutation(columns: Array, targets: Array) -> tuple[Array, Array]:
    """The loss of explained variance on trials that the forest was not grown on."""
    part_of = np.random.default_rng(SEED).permutation(len(targets)) % NUM_PARTS
    together = np.concatenate([_losses(columns, targets, part_of == part) for part in range(NUM_PARTS)])
    return together.mean(axis=0), together.std(axis=0)


def _losses(columns: Array, targets: Array, is_held: npt.NDArray[np.bool_]) -> Array:
    """A row for each shuffle: how much more of the variance is missed with a field's values shuffled."""
    chance = np.random.default_rng(SEED)
    forest = _forest(columns[~is_held], targets[~is_held])
    variance = float(np.var(targets))
    columns, targets = columns[is_held], targets[is_held]
    before = np.mean((forest.predict(columns) - targets) ** 2)
    found = np.zeros((NUM_SHUFFLES, columns.shape[1]))
    for field in range(columns.shape[1]):
        stacked = np.tile(columns, (NUM_SHUFFLES, 1))
        stacked[:, field] = np.concatenate([chance.permutation(columns[:, field]) for _ in range(NUM_SHUFFLES)])
        missed = (forest.predict(stacked).reshape(NUM_SHUFFLES, -1) - targets) ** 2
        found[:, field] = (missed.mean(axis=1) - before) / variance
    return found


def _forest(columns: Array, targets: Array) -> Any:
    from sklearn.ensemble import RandomForestRegressor  # 100 MB of memory, for whoever opens such a page

    return RandomForestRegressor(n_estimators=NUM_TREES, random_state=SEED, n_jobs=1).fit(columns, targets)


# Functional analysis of variance on the trees of a random forest (Hutter, Hoos, Leyton-Brown 2014, section 4).
#
# A tree is constant on boxes. The variance over its whole domain splits into what each field explains alone and what
# is left for their interactions; the spread over the trees is the error. Optuna's evaluator computes the same numbers
# and returns their mean alone.


class Boxes(NamedTuple):
    """The leaves of a tree: ``low`` and ``high`` have a row for each leaf and a column for each field."""

    low: Array
    high: Array
    values: Array


def boxes_of(tree: Any, widths: Array) -> Boxes:
    """``tree`` is the ``tree_`` of scikit-learn, which lists a node before those below it."""
    num = tree.node_count
    low = np.zeros((num, len(widths)))
    high = np.tile(widths, (num, 1))
    left, right, field, threshold = tree.children_left, tree.children_right, tree.feature, tree.threshold
    for node in np.flatnonzero(left >= 0):
        for child in (left[node], right[node]):
            low[child], high[child] = low[node], high[node]
        high[left[node], field[node]] = low[right[node], field[node]] = threshold[node]
    leaves: npt.NDArray[np.bool_] = left < 0
    return Boxes(low[leaves], high[leaves], tree.value[leaves].reshape(-1))


def fanova_shares(boxes: Boxes, widths: Array) -> Array | None:
    """Return which share of the tree's variance each field explains alone; None for a tree that is constant."""
    sizes = (boxes.high - boxes.low) / widths
    volumes = sizes.prod(axis=1)
    mean = float(volumes @ boxes.values)
    variance = float(volumes @ (boxes.values - mean) ** 2)
    if variance <= 1e-12 * max(1.0, mean * mean):
        return None
    alone = [_variance_alone(boxes, sizes, volumes, mean, field, widths[field]) for field in range(len(widths))]
    return np.array(alone) / variance


def _variance_alone(boxes: Boxes, sizes: Array, volumes: Array, mean: float, field: int, width: float) -> float:
    """The variance of the tree's mean over all other fields, as a function of this one."""
    edges = np.unique(np.concatenate((boxes.low[:, field], boxes.high[:, field])))
    middles, lengths = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / width
    # A leaf's volume without this field, times its value: what it adds to the mean wherever it reaches.
    weights = boxes.values * volumes / np.maximum(sizes[:, field], 1e-300)
    covers = (boxes.low[None, :, field] < middles[:, None]) & (middles[:, None] < boxes.high[None, :, field])
    means = covers @ weights
    return float(lengths @ (means - mean) ** 2)


# Parameters of trials as numbers from 0 to 1: logarithmic fields by their logarithm, choices by their place.


def encode(trials: Sequence[TrialPoint], fields: Sequence[SpaceField]) -> Array:
    """Return a row for each trial and a column for each field."""
    rows = [[share_of(field, one.parameters.get(field.path)) for field in fields] for one in trials]
    return np.array(rows, dtype=float).reshape(len(trials), len(fields))


def widths(encoded: Array) -> Array:
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
