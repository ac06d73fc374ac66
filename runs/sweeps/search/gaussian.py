"""A Gaussian process over the values so far, and the point where it expects most (Jones et al. 1998, with the
logarithm of the expected improvement of Ament et al. 2023). In numpy: Optuna's own needs torch, which control never
loads.

The kernel is Matern 5/2 with a length for each dimension. What is running counts with the value that is expected there
("kriging believer"), so that parallel trials do not ask the same.
"""

import hashlib
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from runs.sweeps.search.plain import PastTrial, SamplerQuestion, Suggestion, quasi_random, random
from trainyard.contract.base import BadDocument, WireStruct, convert, to_builtins
from trainyard.contract.statuses import TRIAL_FINAL, TrialState
from trainyard.grouping import grouped
from trainyard.spec.sweeps import ordered
from trainyard.spec.sweeps.space import is_within, unit_of, value_at

if TYPE_CHECKING:
    from cmaes import CMA

GENERATION = "cma_generation"  # with a trial: which generation proposed it
STATE = "cma"  # with the sweep
SIGMA = 1 / 6
MOST_TRIALS = 100  # the best and the newest: its cost grows with their cube
NUM_FITS = 24  # sets of lengths that are tried
NUM_CANDIDATES, NUM_LOCAL, NUM_ROUNDS = 1_024, 256, 3
NOISES = (1e-6, 1e-4, 1e-2, 1e-1)

Matrix = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class GaussianProcess:
    """A fitted process. Values are standardized: mean 0, deviation 1."""

    points: Matrix
    lengths: Matrix
    weights: Matrix  # of the kernel at each point
    cholesky: Matrix
    inverse: Matrix  # of the Cholesky factor

    def predict(self, at: Matrix) -> tuple[Matrix, Matrix]:
        """Return mean and deviation at each row of ``at``."""
        cross = matern(at, self.points, self.lengths)
        mean = cross @ self.weights
        half = self.inverse @ cross.T
        return mean, np.sqrt(np.maximum(1.0 - (half**2).sum(axis=0), 1e-12))


def gaussian(question: SamplerQuestion) -> Suggestion:
    space, paths = question.spec.space, ordered(question.spec.space)
    sign = question.spec.objectives[0].sign
    ended = (TrialState.COMPLETE, TrialState.PRUNED)
    known = _bounded([one for one in question.trials if one.state in ended and one.values], sign)
    known = [one for one in known if is_within(space, one.parameters)]
    if len(known) < question.spec.sampler.startup_trials:
        return quasi_random(question)
    running = [one for one in question.trials if one.state not in TRIAL_FINAL and is_within(space, one.parameters)]
    values = np.array([sign * one.values[0] for one in known])
    values = (values - values.mean()) / (values.std() or 1.0)
    rng = question.rng()
    process = fit(_points(question, known, paths), values, rng)
    if running:
        open_points = _points(question, running, paths)
        believed, _ = process.predict(open_points)
        points = np.vstack([process.points, open_points])
        process = _solved(points, np.concatenate([values, believed]), process.lengths, NOISES[1])
    best = _best_point(process, float(values.min()), rng, len(paths))
    return Suggestion({path: value_at(space[path], float(unit)) for path, unit in zip(paths, best, strict=True)})


def matern(one: Matrix, other: Matrix, lengths: Matrix) -> Matrix:
    """Return the Matern 5/2 kernel between the rows of two matrices."""
    scaled, against = one / lengths, other / lengths
    squares = (scaled**2).sum(1)[:, None] + (against**2).sum(1)[None, :] - 2.0 * scaled @ against.T
    distance = np.sqrt(5.0 * np.maximum(squares, 0.0))
    kernel: Matrix = (1.0 + distance + distance**2 / 3.0) * np.exp(-distance)
    return kernel


def fit(points: Matrix, values: Matrix, rng: np.random.Generator) -> GaussianProcess:
    """Return the process with the lengths and noise under which the values are likeliest: the best of a random search,
    refined around the best so far."""
    num = points.shape[1]
    best, lengths = -math.inf, np.full(num, 0.5)
    noise = NOISES[1]
    for turn in range(NUM_FITS):
        is_wide = turn < NUM_FITS // 2
        tried = np.exp(rng.uniform(math.log(0.05), math.log(3.0), num)) if is_wide else np.clip(
            lengths * np.exp(rng.normal(0.0, 0.3, num)), 0.02, 5.0
        )  # fmt: skip
        level = NOISES[turn % len(NOISES)]
        likelihood = _likelihood(points, values, tried, level)
        if likelihood > best:
            best, lengths, noise = likelihood, tried, level
    return _solved(points, values, lengths, noise)


def _solved(points: Matrix, values: Matrix, lengths: Matrix, noise: float) -> GaussianProcess:
    cholesky = np.linalg.cholesky(matern(points, points, lengths) + (noise + 1e-8) * np.eye(len(points)))
    inverse = np.linalg.inv(cholesky)
    return GaussianProcess(points, lengths, inverse.T @ (inverse @ values), cholesky, inverse)


def _likelihood(points: Matrix, values: Matrix, lengths: Matrix, noise: float) -> float:
    """Return the logarithm of the marginal likelihood, with a prior that keeps lengths near the size of the space."""
    try:
        process = _solved(points, values, lengths, noise)
    except np.linalg.LinAlgError:
        return -math.inf
    fitted = -0.5 * float(values @ process.weights) - float(np.log(np.diag(process.cholesky)).sum())
    return fitted - 0.5 * float((np.log(lengths / 0.5) ** 2).sum()) / 2.0


def _best_point(process: GaussianProcess, best: float, rng: np.random.Generator, num: int) -> Matrix:
    """Return the point of the most expected improvement: of many spread over the space, then around the best."""
    candidates = rng.random((NUM_CANDIDATES, num))
    spread = 0.1
    chosen: Matrix = candidates[0]
    for _ in range(NUM_ROUNDS + 1):
        scores = _log_improvement(*process.predict(candidates), best)
        chosen = np.asarray(candidates[int(np.argmax(scores))])
        around = np.clip(chosen + rng.normal(0.0, spread, (NUM_LOCAL, num)), 0.0, 1.0)
        candidates = np.vstack([chosen, around])
        spread /= 3.0
    return chosen


def _log_improvement(mean: Matrix, deviation: Matrix, best: float) -> Matrix:
    """Return the logarithm of the expected improvement below ``best``, finite also where it is tiny."""
    z = (best - mean) / deviation
    density = np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)
    below = 0.5 * np.vectorize(math.erfc, otypes=[float])(-z / math.sqrt(2.0))
    plain = np.maximum(density + z * below, 1e-300)
    # Far below, where the sum cancels, the improvement falls as the density over z squared.
    tail = -0.5 * z**2 - 0.5 * math.log(2.0 * math.pi) - 2.0 * np.log(np.maximum(np.abs(z), 1.0))
    score: Matrix = np.where(z > -5.0, np.log(plain), tail) + np.log(deviation)
    return score


def _points(question: SamplerQuestion, trials: Sequence[PastTrial], paths: Sequence[str]) -> Matrix:
    space = question.spec.space
    return np.array([[unit_of(space[path], one.parameters[path]) for path in paths] for one in trials])


def _bounded(known: list[PastTrial], sign: int) -> list[PastTrial]:
    if len(known) <= MOST_TRIALS:
        return known
    best = sorted(known[: -MOST_TRIALS // 2], key=lambda one: sign * one.values[0])[: MOST_TRIALS // 2]
    return [*best, *known[-MOST_TRIALS // 2 :]]


# CMA-ES (Hansen 2016) by the library cmaes. Its state after each generation is kept with the sweep as plain numbers,
# in the transaction that writes the trial: whoever proposes next goes on from there, in whatever process. A
# generation is the trials that carry its number; those that end after it was complete do not change it.


class CMAState(WireStruct):
    """The optimizer after ``generation`` generations. ``space`` is a digest of the space in whose units it is."""

    space: str
    generation: int
    sigma: float
    mean: list[float]
    sigma_path: list[float]
    covariance_path: list[float]
    covariance: list[float]  # the upper triangle, by rows


def covariance(question: SamplerQuestion) -> Suggestion:
    space = question.spec.space
    if len(space) == 1:
        return random(question)  # the method is for two dimensions and more
    paths = ordered(space)
    optimizer, generation, changed = _advanced(question, paths)
    # The library draws from a generator of its own: here that of the trial.
    optimizer.reseed_rng(question.sampler_seed())
    parameters = {path: value_at(space[path], float(unit)) for path, unit in zip(paths, optimizer.ask(), strict=True)}
    return Suggestion(parameters, {GENERATION: generation}, {STATE: to_builtins(changed)} if changed else None)


def _advanced(question: SamplerQuestion, paths: Sequence[str]) -> "tuple[CMA, int, CMAState | None]":
    """Return the optimizer after all generations that are complete, the number of the next, and its state where it
    differs from the one that was kept. Where the space was widened since, all trials are replayed in its units."""
    from cmaes import CMA  # control alone needs it, and only for such a sweep

    size = question.spec.sampler.population or 4 + math.floor(3 * math.log(len(paths)))
    optimizer = CMA(
        mean=np.full(len(paths), 0.5), sigma=SIGMA, bounds=np.tile([0.0, 1.0], (len(paths), 1)),
        seed=question.spec.seed, population_size=size,
    )  # fmt: skip
    dimensions = [path + question.spec.space[path].model_dump_json() for path in paths]
    digest = hashlib.sha256("\n".join(dimensions).encode()).hexdigest()[:16]
    kept = _kept(question, digest)
    if kept is not None:
        _restore(optimizer, kept)
    generation = first = kept.generation if kept is not None else 0
    numbered = ((trial.attributes.get(GENERATION), trial) for trial in question.trials)
    by_generation = grouped((int(at), trial) for at, trial in numbered if at is not None and at >= first)
    while len(told := _solutions(question, paths, by_generation.get(generation, []))) >= size:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of generations in which all values are alike
            optimizer.tell(told[:size])
        generation += 1
    return optimizer, generation, _state_of(optimizer, digest) if generation > first else None


def _kept(question: SamplerQuestion, digest: str) -> CMAState | None:
    if STATE not in question.study_state:
        return None
    try:
        kept = convert(question.study_state[STATE], CMAState)
    except BadDocument:  # of another version
        return None
    return kept if kept.space == digest else None


def _state_of(optimizer: "CMA", digest: str) -> CMAState:
    # The library makes the matrix symmetric like this before each use.
    matrix = (optimizer._C + optimizer._C.T) / 2
    return CMAState(
        space=digest,
        generation=optimizer.generation,
        sigma=float(optimizer._sigma),
        mean=optimizer.mean.tolist(),
        sigma_path=optimizer._p_sigma.tolist(),
        covariance_path=optimizer._pc.tolist(),
        covariance=matrix[np.triu_indices(len(matrix))].tolist(),
    )


def _restore(optimizer: "CMA", kept: CMAState) -> None:
    upper = np.triu_indices(optimizer.dim)
    matrix = np.zeros((optimizer.dim, optimizer.dim))
    matrix[upper] = kept.covariance
    optimizer._C = matrix + np.triu(matrix, 1).T
    optimizer._sigma, optimizer._g = kept.sigma, kept.generation
    optimizer._mean = np.array(kept.mean)
    optimizer._p_sigma, optimizer._pc = np.array(kept.sigma_path), np.array(kept.covariance_path)


def _solutions(question: SamplerQuestion, paths: Sequence[str], trials: Sequence[PastTrial]) -> list[tuple[Any, float]]:
    """Return the points and values of the trials that completed. One that was pruned is worse than all of these."""
    sign = question.spec.objectives[0].sign
    space = question.spec.space
    values = {one.number: sign * one.values[0] for one in trials if one.state == TrialState.COMPLETE and one.values}
    worst = max(values.values(), default=0.0)
    found = []
    for one in trials:
        if one.number in values or one.state == TrialState.PRUNED:
            point = np.array([unit_of(space[path], one.parameters[path]) for path in paths])
            found.append((point, values.get(one.number, worst + 1.0)))
    return found
