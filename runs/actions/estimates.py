"""Estimates of a spec's cost on the clusters where the person who asks could launch it: nothing is written."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from runs.actions.checking import cluster_of, parse_launch
from runs.engines import engine_of
from runs.inputs.datasets import resolve
from runs.models import Cluster, Node
from runs.placing.fitting import Placed
from runs.placing.planning import MAX_RANKS, Costs, KnownRates, costs, likely_nodes
from runs.placing.queue import forecast
from runs.rights.access import Permission, Someone, project_by_name, require, visible_runs
from trainyard.spec import Problem, RecipeSpec, SpecError, check_fits


@dataclass(frozen=True)
class Plans:
    """``nodes`` are those that it was worked out for: where it would start now, or would if they were idle."""

    nodes: list[Node]
    costs: Costs


def plans_of(user: Someone, document: Any, *, count: int, now: datetime) -> Plans:
    """Raises SpecError for what is wrong with the spec, or cannot be planned, NotFound for its project, and Forbidden
    for a token without the scope to see it."""
    spec = parse_launch(user, document)
    if not isinstance(spec, RecipeSpec):
        raise SpecError([Problem("task", "is nothing that the planner knows: it plans the recipes that train")])
    if spec.world_size() > MAX_RANKS:
        raise SpecError([Problem("resources", f"{spec.world_size():,} ranks are more than are planned: {MAX_RANKS:,}")])
    project = project_by_name(user, spec.project)
    require(user, project, Permission.PROJECTS_READ)
    cluster = cluster_of(user, project, spec)
    filled = resolve(spec, project, cluster)
    assert isinstance(filled, RecipeSpec), "a dataset changes no recipe"
    nodes = _nodes(filled, cluster, now)
    try:
        return Plans(nodes, costs(filled, cluster, nodes, num_proposals=count))
    except ValueError as error:
        raise SpecError([Problem("", f"cannot be planned: {error}")]) from None


def shown_run(user: Someone, known: KnownRates) -> str:
    """Return the benchmark whose rates these are; empty where the person does not see it, or nobody has measured."""
    return known.run_id if known.run_id and visible_runs(user).filter(pk=known.run_id).exists() else ""


def _nodes(spec: RecipeSpec, cluster: Cluster, now: datetime) -> list[Node]:
    nodes = {node.pk: node for node in Node.objects.registered().filter(cluster=cluster)}
    if problems := check_fits(spec, nodes.values()):
        raise SpecError(problems)
    answer = forecast(cluster, spec.resolved(), engine_of(cluster).capacity(cluster, now), now)
    if isinstance(answer, Placed):
        return [nodes[part.node] for part in answer.parts]
    chosen = likely_nodes(spec, list(nodes.values()))
    if not chosen:
        raise SpecError([Problem("cluster", f"{cluster.name} has no nodes yet, for which to plan")])
    return chosen
