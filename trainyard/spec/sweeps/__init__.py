"""Sweeps: the only place that knows a valid one, as ``trainyard.spec`` knows a valid run.

``parse_sweep(document)`` gives a SweepSpec or raises SpecError; ``space_problems`` checks it against its base spec.
"""

from trainyard.spec.sweeps.models import Budget, Dimension, Objective, Pruner, Sampler, SweepSpec
from trainyard.spec.sweeps.overlay import overlay, trial_document
from trainyard.spec.sweeps.parse import first_point, parse_sweep, space_problems, sweep_schema
from trainyard.spec.sweeps.space import active, grid_size, nth_of_grid, ordered
