"""Sweeps: the only place that knows a valid one, as ``trainyard.spec`` knows a valid run.

``parse_sweep(document)`` gives a SweepSpec or raises SpecError; ``space_problems`` checks it against its base spec.
"""

from trainyard.spec.sweeps.models import Budget, Dimension, Objective, Pruner, Sampler, SweepSpec
from trainyard.spec.sweeps.overlay import overlay, trial_document
from trainyard.spec.sweeps.parse import parse_sweep, sweep_schema
from trainyard.spec.sweeps.probing import first_point, space_problems
from trainyard.spec.sweeps.space import active, grid_size, nth_of_grid, ordered

__all__ = [
    "Budget",
    "Dimension",
    "Objective",
    "Pruner",
    "Sampler",
    "SweepSpec",
    "active",
    "first_point",
    "grid_size",
    "nth_of_grid",
    "ordered",
    "overlay",
    "parse_sweep",
    "space_problems",
    "sweep_schema",
    "trial_document",
]
