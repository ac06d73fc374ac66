"""What the launch page says a spec will cost: memory, time, and the plans that would cost less."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from dashboard.pages.shared import estimate as estimate_view
from dashboard.pages.shared.estimate import EstimateView, Suggestion
from dashboard.pages.shared.numbers import seconds
from runs.actions.estimates import shown_run
from runs.models import Node, Run
from runs.placing import planning
from runs.placing.planning import Costs
from runs.presenting.measured import measured_of
from runs.rights.access import Someone, visible_runs
from trainyard.spec import RecipeSpec, Spec, read_spec

MAX_RANKS = 256  # up to which it is worked out while somebody types

logger = logging.getLogger(__name__)


class MeasuredStep(NamedTuple):
    run: Run
    step_s: float

    @property
    def words(self) -> str:
        return seconds(self.step_s)


class Cost(NamedTuple):
    """``estimate`` is None where ``problem`` says why. ``measure`` is the source that fills the form with a benchmark
    of as many nodes and processes; ``rates_run`` the one whose rates these are, which ended ``rates_at``: empty where
    the person does not see it, and both where nobody has measured. ``measured`` is how long a step took in the run that
    the form was filled from, where its plan is the same."""

    estimate: EstimateView | None
    suggestions: list[Suggestion]
    problem: str
    rates_run: str
    rates_at: datetime | None
    measure: str
    measured: MeasuredStep | None = None

    @property
    def overflow(self) -> str:
        """The warning about missing memory; empty where there is enough, or it is unknown."""
        return estimate_view.overflow(self.estimate.memory) if self.estimate else ""


def cost(user: Someone, spec: Spec, nodes: Sequence[Node], source: str = "") -> Cost | None:
    """``nodes`` are those that it would be placed on, ``source`` is what the form was filled from. None where there are
    no nodes, and for what the planner knows nothing of: a script, and what trains nothing."""
    if not nodes or not isinstance(spec, RecipeSpec):
        return None
    cluster = nodes[0].cluster
    spec = spec.at(len(nodes)) if spec.resources.is_elastic else spec
    measure = f"measure:{cluster.name}@{len(nodes)}x{spec.resources.processes_per_node}"
    if spec.world_size() > MAX_RANKS:
        problem = f"More than {MAX_RANKS} ranks are not worked out here: `trainyard plan` does."
        return Cost(None, [], problem, "", None, measure)
    try:
        costs = planning.costs(spec, cluster, nodes)
        return _cost(user, spec, costs, measure, _measured(user, source, costs, nodes))
    except ValueError as error:
        problem = str(error)
    except Exception:  # the form works without
        logger.exception("no estimate could be made of %s", spec.name)
        problem = "The planner could not work this one out."
    return Cost(None, [], problem, "", None, measure)


def _cost(user: Someone, spec: RecipeSpec, costs: Costs, measure: str, measured: MeasuredStep | None) -> Cost:
    view = estimate_view.view(spec, costs.estimate, measured.step_s if measured else None)
    plans = estimate_view.suggestions(spec, costs.proposals)
    return Cost(view, plans, "", shown_run(user, costs.known), costs.known.at, measure, measured)


def _measured(user: Someone, source: str, costs: Costs, nodes: Sequence[Node]) -> MeasuredStep | None:
    """What the planner says the same of is the same plan, whatever else was changed in the form."""
    kind, _, name = source.partition(":")
    if kind not in ("run", "checkpoint"):
        return None
    run = visible_runs(user).filter(pk=name.partition("@")[0], cluster=nodes[0].cluster).first()
    found = measured_of(run) if run else None
    step_s = found["step_time"]["total"] if found else None
    if run is None or not step_s:
        return None
    try:
        before = read_spec(run.spec)
        same = planning.estimate_for(before, nodes[0].cluster, nodes) if isinstance(before, RecipeSpec) else None
    except ValueError:  # it had other nodes
        return None
    return MeasuredStep(run, step_s) if same and same.step_time == costs.estimate.step_time else None
