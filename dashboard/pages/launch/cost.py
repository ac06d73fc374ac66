"""What the launch page says a spec will cost: memory, time, and the plans that would cost less."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from dashboard.pages.shared import estimate as estimate_view
from dashboard.pages.shared.estimate import EstimateView, Suggestion
from runs.access import Someone
from runs.actions.estimates import shown_run
from runs.models import Node
from runs.placing import planning
from runs.placing.planning import Costs
from trainyard.spec import RecipeSpec, Spec

MAX_RANKS = 256  # up to which it is worked out while somebody types

logger = logging.getLogger(__name__)


class Cost(NamedTuple):
    """``estimate`` is None where ``problem`` says why. ``measure`` is the source that fills the form with a benchmark
    of as many nodes and processes; ``rates_run`` the one whose rates these are, which ended ``rates_at``: empty where
    the person does not see it, and both where nobody has measured."""

    estimate: EstimateView | None
    suggestions: list[Suggestion]
    problem: str
    rates_run: str
    rates_at: datetime | None
    measure: str

    @property
    def overflow(self) -> str:
        """The warning about missing memory; empty where there is enough, or it is unknown."""
        return estimate_view.overflow(self.estimate.memory) if self.estimate else ""


def cost(user: Someone, spec: Spec, nodes: Sequence[Node]) -> Cost | None:
    """``nodes`` are those that it would be placed on. None where there are none, and for what the planner knows nothing
    of: a script, and what trains nothing."""
    if not nodes or not isinstance(spec, RecipeSpec):
        return None
    cluster = nodes[0].cluster
    spec = spec.at(len(nodes)) if spec.resources.is_elastic else spec
    measure = f"measure:{cluster.name}@{len(nodes)}x{spec.resources.processes_per_node}"
    if spec.world_size() > MAX_RANKS:
        problem = f"More than {MAX_RANKS} ranks are not worked out here: `trainyard plan` does."
        return Cost(None, [], problem, "", None, measure)
    try:
        return _cost(user, spec, planning.costs(spec, cluster, nodes), measure)
    except ValueError as error:
        problem = str(error)
    except Exception:  # the form works without
        logger.exception("no estimate could be made of %s", spec.name)
        problem = "The planner could not work this one out."
    return Cost(None, [], problem, "", None, measure)


def _cost(user: Someone, spec: RecipeSpec, costs: Costs, measure: str) -> Cost:
    view = estimate_view.view(spec, costs.estimate)
    plans = estimate_view.suggestions(spec, costs.proposals)
    return Cost(view, plans, "", shown_run(user, costs.known), costs.known.at, measure)
