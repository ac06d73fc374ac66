"""Estimates of a spec's cost and start, on clusters where the person could launch it: nothing is written."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from math import inf
from typing import Any, NamedTuple

from runs.actions.checking import cluster_of, parse_launch
from runs.engines import engine_of
from runs.inputs.datasets import resolve
from runs.models import Cluster, Node
from runs.models.runs import size_of
from runs.placing.conditions import why_not_yet
from runs.placing.fitting import Placed, Waiting
from runs.placing.planning import MAX_RANKS, Costs, KnownRates, costs, frozen_estimate, likely_nodes
from runs.placing.queue import NEW, Ahead, request_of
from runs.placing.spans import Span, same
from runs.rights.access import Permission, Someone, project_by_name, require, visible_runs
from trainyard.contract.base import JsonObject
from trainyard.spec import Problem, RecipeSpec, Spec, SpecError, check_fits, merge, parse_spec

MAX_SHAPES = 3  # whose start is worked out: the spec's own, and those with a half and a quarter of its copies
MAX_TYPED_RANKS = 256  # up to which its time is estimated while somebody types
SOONER_S = 60.0  # by which a smaller shape starts earlier, else it is not worth a word


class Plans(NamedTuple):
    """``nodes`` are those that it was worked out for: where it would start now, or would if they were idle."""

    nodes: list[Node]
    costs: Costs
    start: "Start"


class Smaller(NamedTuple):
    """The spec with fewer copies of the model. ``changes`` are as overrides take them, ``starts`` is in seconds."""

    changes: JsonObject
    num_ranks: int
    starts: Span


class Start(NamedTuple):
    """Where a run would start that was submitted ``now``, else why, and for how many seconds, it would wait."""

    answer: Placed | Waiting
    starts: Span | None
    smaller: list[Smaller]
    now: float

    @property
    def at(self) -> Span | None:
        at = self.starts
        return at and Span(self.now + at.low, self.now + at.expected, self.now + at.high)


def start_of(user: Someone, spec: Spec, cluster: Cluster, nodes: Sequence[Node], now: datetime) -> Start:
    """Return when a run of the spec, with its dataset's fields, would start on its cluster, which has these nodes."""
    ahead = Ahead(cluster, engine_of(cluster).capacity(cluster, now), now)
    answer, starts = own = _prospect(ahead, user, spec, cluster, nodes)
    smaller, changes, least = list[Smaller](), dict[str, Any](), starts.expected if starts else inf
    for _ in range(MAX_SHAPES - 1):
        if isinstance(answer, Placed) or (halved := _halved(spec)) is None:
            break
        spec, changes = halved[0], changes | halved[1]
        answer, starts = _prospect(ahead, user, spec, cluster, nodes)
        at = same(0.0) if isinstance(answer, Placed) else starts
        if at and at.expected + SOONER_S <= least:
            least = at.expected
            smaller.append(Smaller(changes, spec.world_size(), at))
    return Start(*own, smaller, now.timestamp())


def _prospect(
    ahead: Ahead, user: Someone, spec: Spec, cluster: Cluster, nodes: Sequence[Node]
) -> tuple[Placed | Waiting, Span | None]:
    document = spec.resolved()
    if why := why_not_yet(document, ahead.now):
        return Waiting(NEW, *why), None
    request = replace(request_of(NEW, document), person=user.pk)
    estimate = frozen_estimate(spec, cluster, nodes) if spec.world_size() <= MAX_TYPED_RANKS else None
    planned_s = estimate["step_time"]["total"] * spec.train.steps if estimate and isinstance(spec, RecipeSpec) else None
    return ahead.prospect(request, ahead.history.lasting(request, spec.name, planned_s, size_of(document)["limit_s"]))


def _halved(spec: Spec) -> tuple[RecipeSpec, JsonObject] | None:
    """Return the spec with half its copies of the model, on half its nodes or else on half the processes of each, and
    what that changes. None where that is no valid spec, and of a script, which decides itself what its ranks do."""
    if not isinstance(spec, RecipeSpec) or spec.resources.is_elastic or (copies := spec.mesh().data) % 2:
        return None
    fixed = {} if spec.parallel.data == "auto" else {"parallel.data": copies // 2}
    of_spec = spec.resources
    sizes = {"resources.nodes": of_spec.least_nodes, "resources.processes_per_node": of_spec.processes_per_node}
    for changes in ({path: number // 2, **fixed} for path, number in sizes.items() if number % 2 == 0):
        try:
            found = parse_spec(merge(spec.resolved(), changes))
        except SpecError:
            continue
        if isinstance(found, RecipeSpec) and 2 * found.mesh().data == copies:
            return found, changes
    return None


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
    registered = list(Node.objects.registered().filter(cluster=cluster).select_related("cluster"))
    if problems := check_fits(filled, registered):
        raise SpecError(problems)
    start = start_of(user, filled, cluster, registered, now)
    by_id = {node.pk: node for node in registered}
    parts = start.answer.parts if isinstance(start.answer, Placed) else ()
    nodes = [by_id[part.node] for part in parts] or likely_nodes(filled, registered)
    if not nodes:
        raise SpecError([Problem("cluster", f"{cluster.name} has no nodes yet, for which to plan")])
    try:
        return Plans(nodes, costs(filled, cluster, nodes, num_proposals=count), start)
    except ValueError as error:
        raise SpecError([Problem("", f"cannot be planned: {error}")]) from None


def shown_run(user: Someone, known: KnownRates) -> str:
    """Return the benchmark whose rates these are; empty where the person does not see it, or nobody has measured."""
    return known.run_id if known.run_id and visible_runs(user).filter(pk=known.run_id).exists() else ""
