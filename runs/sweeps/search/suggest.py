"""Choice of the sampler."""

from collections.abc import Callable

from runs.sweeps.search import optuna_study, plain
from runs.sweeps.search.gaussian import covariance, gaussian
from runs.sweeps.search.plain import SamplerQuestion, Suggestion
from trainyard.spec.sweeps.models import SamplerName

SAMPLERS: dict[SamplerName, Callable[[SamplerQuestion], Suggestion | None]] = {
    "tpe": optuna_study.tree_parzen, "nsga2": optuna_study.nsga, "cmaes": covariance, "gp": gaussian,
    "random": plain.random, "quasi-random": plain.quasi_random, "grid": plain.grid, "population": plain.first_members,
}  # fmt: skip


def suggest(question: SamplerQuestion) -> Suggestion | None:
    """Return the next trial's parameters; None where a grid has no more points."""
    return SAMPLERS[question.spec.sampler.name](question)
