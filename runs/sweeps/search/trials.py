"""Questions to a sampler, with the trials so far, and its answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainyard.contract.base import JsonObject
from trainyard.contract.statuses import TrialState
from trainyard.spec.sweeps import SweepSpec


@dataclass(frozen=True)
class PastTrial:
    """A trial that was proposed before. ``values`` are of its objectives; of a pruned one the last that it reported,
    at ``step``."""

    number: int
    state: TrialState
    parameters: Mapping[str, Any]
    values: tuple[float, ...] = ()
    step: int | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SamplerQuestion:
    """Question to a sampler: the parameters of trial ``number``, the ``place``-th that it proposes. ``trials`` are all
    before it, by number."""

    spec: SweepSpec
    number: int
    place: int
    trials: Sequence[PastTrial]
    study_state: JsonObject

    def rng(self) -> np.random.Generator:
        """Return randomness that belongs to this trial alone."""
        return np.random.default_rng([self.spec.seed, self.place])

    def sampler_seed(self) -> int:
        return int(np.random.SeedSequence([self.spec.seed, self.place]).generate_state(1)[0])


@dataclass(frozen=True)
class Suggestion:
    """The parameters, and what the sampler wants to find again: with the trial, and with the sweep."""

    parameters: JsonObject
    attributes: JsonObject = field(default_factory=dict)
    study_state: JsonObject | None = None
