"""The planner's input about a cluster: its nodes and its measured rates. And its estimates.

Nothing here may keep a run from being submitted: callers accept None, or a ValueError, instead of an estimate.
"""

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from runs.models import Cluster, Dataset, HeldSlot, Node, Placement, Run
from runs.placing.fitting import CPU, GPU, DividedSlot, Placed, Room
from runs.placing.queue import request_of
from runs.placing.scheduling import place
from runs.records.metrics.progress import facts_of
from runs.values.status import Status
from trainyard import planner
from trainyard.contract.base import JsonObject, SpecDocument
from trainyard.contract.facts import EstimateDocument
from trainyard.contract.machines import PODMAN, Cpu
from trainyard.formats.figures import size
from trainyard.formats.words import counted
from trainyard.planner import DataFacts, Estimate, NodeFacts, Proposal, Rates
from trainyard.planner.roofline import find_link
from trainyard.spec import RecipeSpec, Spec, parse_spec
from trainyard.spec.needs import Needs, needs_of

BENCHMARK = "communication-benchmark"
RATES = "rates"  # the fact that a benchmark's rank 0 reports
NUM_BENCHMARKS = 5  # that are looked at, newest first
MAX_RANKS = 4_096  # of which each would have a line in what is kept

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class KnownRates:
    """``run_id`` is of the benchmark that measured them, which ended ``at``; empty where they are assumed."""

    rates: Rates
    run_id: str = ""
    at: datetime | None = None


@dataclass(frozen=True)
class Costs:
    """``proposals`` are the best first, and what the spec says may be among them."""

    estimate: Estimate
    proposals: list[Proposal]
    known: KnownRates


def node_facts(nodes: Sequence[Node]) -> list[NodeFacts]:
    return [_facts(node) for node in nodes]


def likely_nodes(spec: Spec, nodes: Sequence[Node]) -> list[Node]:
    """Return where the run would be placed if all of ``nodes`` were idle, in the order of its ranks; none where they
    cannot hold it."""
    by_id = {node.pk: node for node in nodes}
    levels = nodes[0].cluster.topology if nodes else []
    answer = place("", [request_of("", spec.resolved())], [room_of(node, levels) for node in nodes])[0]
    return [by_id[part.node] for part in answer.parts] if isinstance(answer, Placed) else []


def known_rates(cluster: Cluster, nodes: Sequence[Node] = (), num_ranks: int = 0) -> KnownRates:
    """Return the rates of the newest benchmark that succeeded on nodes of the same kind as ``nodes``; of those that are
    looked at, one that measured the network comes first where there is more than one rank (of ``nodes``, by default),
    then one on as many of the same nodes. What it did not measure of the network is assumed."""
    facts = _facts(nodes[0]) if nodes else None
    usual = planner.default_rates(*((facts.accelerator, facts.device) if facts else ("cpu", "")))
    wanted, needs_links = {node.pk for node in nodes}, (num_ranks or len(nodes)) > 1
    found: list[tuple[tuple[bool, bool], KnownRates]] = []
    done = Run.objects.filter(cluster=cluster, status=Status.SUCCEEDED, recipe=BENCHMARK, ended_at__isnull=False)
    for run in done.order_by("-ended_at")[:NUM_BENCHMARKS]:
        placed = list(Placement.objects.filter(attempt__run=run, attempt__fence=run.fence).select_related("node"))
        if facts is not None and any(one.node.accelerator != facts.accelerator for one in placed):
            continue
        rates = _told(run)
        if rates is None:
            continue
        lacks = (needs_links and not rates.links, {one.node_id for one in placed} != wanted)
        found.append((lacks, KnownRates(_with_links(rates, usual), run.pk, run.ended_at)))
        if not any(lacks):
            break
    return min(found, key=lambda one: one[0])[1] if found else KnownRates(usual)


def _with_links(rates: Rates, usual: Rates) -> Rates:
    """Return the rates with the usual links where there are none: without a link a message would cost nothing."""
    missing = {name: link for name, link in usual.links.items() if find_link(rates.links, name) is None}
    return msgspec.structs.replace(rates, links={**rates.links, **missing})


def data_facts(spec: RecipeSpec) -> DataFacts | None:
    """Return what a node found in the dataset that the spec names; None where nobody has looked."""
    name = spec.resolved()["task"]["data"].get("dataset")
    found = Dataset.objects.filter(project__name=spec.project, name=name).first() if name else None
    if found is None or found.state != Dataset.State.READY:
        return None
    facts, options = found.facts, found.options
    columns = [one for one in facts.get("columns") or [] if one.get("name") != options.get("target", "target")]
    return DataFacts(
        num_rows=facts.get("num_rows"),
        num_features=facts.get("num_features") or len(columns) or None,
        num_classes=facts.get("num_classes"),
        channels=facts.get("channels"),
        image_size=facts.get("image_size") or options.get("image_size"),
    )


def estimate_for(spec: RecipeSpec, cluster: Cluster, nodes: Sequence[Node]) -> Estimate:
    """Return what a run of ``spec`` would cost on ``nodes`` of the cluster, those that it would be placed on. Raises
    ValueError where nobody can say."""
    return costs(spec, cluster, nodes, num_proposals=0).estimate


def costs(spec: RecipeSpec, cluster: Cluster, nodes: Sequence[Node], *, num_proposals: int = 3) -> Costs:
    """Return the estimate and the plans for ``nodes`` that promise most. Raises what ``estimate_for`` raises."""
    if spec.resources.is_elastic:
        spec = spec.at(len(nodes))
    elif len(nodes) != spec.resources.nodes:
        raise ValueError(f"the plan is for {spec.resources.nodes} nodes, and {len(nodes)} were chosen")
    known = known_rates(cluster, nodes, spec.world_size())
    facts, data = node_facts(nodes), data_facts(spec)
    estimate = planner.estimate(spec, facts, known.rates, data)
    proposals = planner.best_plans(spec, facts, known.rates, data, num_proposals) if num_proposals else []
    return Costs(estimate, proposals, known)


def frozen_estimate(spec: Spec, cluster: Cluster, nodes: Sequence[Node]) -> EstimateDocument | None:
    """Return the estimate as a run keeps it, on those of ``nodes`` that would hold it; None where nobody can say."""
    if not isinstance(spec, RecipeSpec) or spec.world_size() > MAX_RANKS:
        return None
    try:
        chosen = likely_nodes(spec, nodes)
        return estimate_for(spec, cluster, chosen).as_document() if chosen else None
    except Exception:  # an estimate is a help and no condition: the run goes without
        logger.warning("no estimate could be made of %s on cluster %s", spec.name, cluster.name, exc_info=True)
        return None


def planned_step_s(document: JsonObject, cluster: Cluster, nodes: Sequence[Node]) -> float | None:
    """Return how long a step would take, also on more nodes than there are, which count as alike; None: unknown."""
    try:
        spec = parse_spec(document)
        if not isinstance(spec, RecipeSpec):
            return None
        chosen = likely_nodes(spec, nodes) or nodes
        known = known_rates(cluster, chosen, spec.world_size())
        return planner.estimate(spec, node_facts(chosen), known.rates, data_facts(spec)).step_time.total
    except ValueError:
        return None


def _told(run: Run) -> Rates | None:
    document = facts_of(run.pk, RATES, JsonObject).get(0)
    try:
        return None if document is None else Rates.from_document(document)
    except ValueError as error:
        logger.warning("the rates of run %s are not read: %s", run.pk, error)
        return None


def _facts(node: Node) -> NodeFacts:
    """Return the planner's facts of a node. Facts missing in the inventory count as the least there is."""
    found = node.machine
    gpus, cpu = found.gpus or [], found.cpu or Cpu()
    sizes = [gpu.memory_bytes for gpu in gpus if gpu.memory_bytes and gpu.memory_bytes > 0]
    return NodeFacts(
        name=node.name,
        slots=node.slots,
        accelerator=node.accelerator,
        cores=max(0, cpu.machine_count or cpu.count or 0) or node.slots,
        memory_bytes=max(0, found.memory_bytes or 0),
        device_memory_bytes=min(sizes) if sizes else None,
        device=(gpus[0].name if gpus else cpu.model) or "",
        host=found.hostname or node.name,
    )


# The room that nodes have: their slots, and which of them are held.


def is_exposed(node: Node) -> bool:
    """Return whether its cluster asks for a higher sandbox level than it has."""
    return (node.sandbox_level or 0) < node.cluster.isolation_minimum


def runs_containers(node: Node) -> bool:
    """Return whether its ranks may run in containers: also true for a machine that nobody has looked at."""
    tools = node.machine.tools
    return tools is None or PODMAN in tools


def rooms_of(nodes: Sequence[Node], now: datetime) -> list[Room]:
    held: dict[str, set[int]] = defaultdict(set)
    shares: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    sizes: dict[tuple[str, int], int] = {}
    columns = HeldSlot.objects.filter(node__in=nodes).values_list("node_id", "index", "share", "num_shares")
    for node_id, index, share, num_shares in columns:
        held[node_id].add(index)
        if num_shares > 1:
            shares[node_id][index].add(share)
            sizes[node_id, index] = num_shares
    levels = nodes[0].cluster.topology if nodes else []
    return [
        replace(
            room_of(node, levels),
            free=tuple(index for index in range(node.slots) if index not in held[node.pk]),
            is_in_contact=node.is_in_contact(now),
            is_draining=node.is_draining,
            divided={
                index: DividedSlot(num := sizes[node.pk, index], tuple(one for one in range(num) if one not in taken))
                for index, taken in shares[node.pk].items()
            },
            is_exposed=is_exposed(node),
        )
        for node in nodes
    ]


def room_of(node: Node, levels: Sequence[str]) -> Room:
    """Return the room of the node when it is idle and in contact."""
    machine = node.machine
    return Room(
        node.pk, node.name, node.slots, tuple(range(node.slots)), GPU if machine.gpus else CPU, machine=machine,
        is_cold=machine.is_warm is False, runs_containers=runs_containers(node),
        place=tuple((machine.labels or {}).get(level, "") for level in levels), levels=tuple(levels),
    )  # fmt: skip


def would_travel(spec: SpecDocument, nodes: Sequence[Node], others: Sequence[Node] = ()) -> str:
    """Say how much the nodes would have to fetch, where that is known; ``others`` may know the size of an image."""
    needs, machines = needs_of(spec) or Needs(), [node.machine for node in nodes]
    sizes = {key: number for node in (*others, *nodes) for key, number in (node.machine.kept or {}).items()}
    if needs.kept and (dataset := (spec["task"].get("data") or {}).get("dataset")):
        found = Dataset.objects.filter(project__name=spec["project"], name=dataset).first()
        sizes[needs.kept[0]] = (found and found.size_bytes) or 0
    parts = [sum(sizes.get(key, 0) for key in needs.fetched(machine)) for machine in machines]
    if not sum(parts) or any(machine.kept is None for machine in machines):
        return ""
    return f"{size(sum(parts))} would travel to {sum(map(bool, parts))} of {counted(len(nodes), 'node')}."
