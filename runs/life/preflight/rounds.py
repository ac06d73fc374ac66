"""Round of each second: control stores the check results of nodes, tells each node which others to try, and ends the
preflights that somebody waits for."""

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from django.db.models import Exists, OuterRef, QuerySet
from msgspec.structs import replace

from runs.life.preflight.needs import CheckedNode, Needs, checked_nodes
from runs.life.preflight.pairs import collective_checks
from runs.life.preflight.vetting import checks_of_placement, checks_together
from runs.models import Attempt, Node, Placement, Preflight
from runs.serving import broadcast
from runs.serving.transport import redis
from runs.values.columns import Check, CheckState
from runs.values.kept import Kept
from trainyard.contract.base import to_builtins
from trainyard.contract.desired import CollectivePlan, Peer, ProbeRequest
from trainyard.contract.machines import MAX_PEERS, SelfCheck
from trainyard.contract.node_status import NodeStatus
from trainyard.grouping import grouped

PEERS_EVERY = 5  # ticks between two lists of peers for one node: a node keeps the last
ASKED_LIMIT_S = 15.0  # for a node to answer a preflight
COLLECTIVE_LIMIT_S = 75.0  # …with a collective, for which it imports torch
KEPT = 50  # preflights of a cluster that somebody asked for

Statuses = Mapping[str, NodeStatus]
_ahead_s = Kept[float](30.0)


def column_of(status: NodeStatus) -> SelfCheck | None:
    """Return a node's own checks as its row keeps them: its clock is compared with the server's."""
    own = status.self_check
    if own is None or own.clock_ahead_s is None:
        return own
    return replace(own, clock_ahead_s=round(own.clock_ahead_s - _ahead_s.get("", _measured_ahead_s), 3))


def _measured_ahead_s() -> float:
    """Return the lead of the server's clock over Valkey's, which may run on another machine. Raises redis.RedisError
    while Valkey is away."""
    before = time.time()
    seconds, micros = redis().time()
    return (before + time.time()) / 2 - (seconds + micros / 1e6)


def troubles_of(own: object) -> list[object]:
    """Return the values of a row's checks that decide a verdict: a change of them is written at once."""
    if not isinstance(own, dict):
        return []
    folders = [(own.get(name) or {}).get("problem") for name in ("home", "checkpoints")]
    peers = sorted(peer for peer, result in (own.get("peers") or {}).items() if result.get("problem"))
    return [*folders, *peers, own.get("answers"), own.get("port")]


def with_asked(nodes: QuerySet[Node]) -> QuerySet[Node]:
    """Add to each node whether somebody waits for a preflight of its cluster, so that most ticks read none."""
    return nodes.annotate(is_asked=Exists(Preflight.objects.filter(cluster=OuterRef("cluster"), ended_at=None)))


def _open_ones(nodes: Sequence[Node]) -> list[Preflight]:
    is_any = any(getattr(node, "is_asked", False) for node in nodes)
    return list(Preflight.objects.filter(ended_at=None)) if is_any else []


def probes_for(nodes: Sequence[Node], statuses: Statuses, now: datetime) -> dict[str, ProbeRequest]:
    """Return, by node id, the lists of peers that are due. Cheap for most nodes in most ticks."""
    asked = {node: one for one in _open_ones(nodes) for node in one.nodes}
    present = {node.pk: node for node in nodes}
    here = [node for node in nodes if node.pk in statuses and node.is_in_contact(now)]
    found: dict[str, ProbeRequest] = {}
    for members in grouped((node.cluster_id, node) for node in sorted(here, key=lambda one: one.name)).values():
        for place, node in enumerate(members):
            if node.pk in asked or (int(now.timestamp()) + place) % PEERS_EVERY == 0:
                around = (members[place + 1 :] + members[:place])[:MAX_PEERS]
                known = [peer for one in around if (peer := _peer(one, statuses[one.pk])) is not None]
                found[node.pk] = ProbeRequest(known)
                if preflight := asked.get(node.pk):
                    found[node.pk] = ProbeRequest(known, preflight.pk, _plan(preflight, node, present, statuses))
    return found


def _plan(preflight: Preflight, node: Node, present: Mapping[str, Node], statuses: Statuses) -> CollectivePlan | None:
    """Return the node's part of the preflight's collective: the nodes meet at the first of them."""
    if node.pk not in preflight.collective or any(one not in statuses for one in preflight.collective):
        return None
    first = preflight.collective[0]
    own = statuses[first].self_check
    if first not in present or own is None or own.meeting_port is None:
        return None
    rank, world_size = preflight.collective.index(node.pk), len(preflight.collective)
    return CollectivePlan(rank, world_size, statuses[first].address, own.meeting_port)


def _peer(node: Node, status: NodeStatus) -> Peer | None:
    port = status.self_check.port if status.self_check else None
    return None if port is None else Peer(node.pk, node.name, status.address, port)


def follow_preflights(nodes: Sequence[Node], now: datetime) -> None:
    """End the preflights whose nodes have all answered, or had the time to."""
    for preflight in _open_ones(nodes):
        members = [node for node in nodes if node.pk in preflight.nodes]
        waiting = [node for node in members if not _has_answered(node, preflight, now)]
        limit_s = COLLECTIVE_LIMIT_S if preflight.collective else ASKED_LIMIT_S
        if waiting and (now - preflight.created_at).total_seconds() <= limit_s:
            continue
        checked = checked_nodes(members, now)
        silent = {one.pk for one in waiting}
        late = [_late(node, limit_s) for node in checked if node.id in silent and node.is_in_contact]
        part = [node for node in checked if node.id in preflight.collective and node.id not in silent]
        preflight.results = to_builtins([*late, *checks_together(checked), *collective_checks(part)])
        preflight.ended_at = now
        preflight.save(update_fields=["results", "ended_at"])
        asked = Preflight.objects.filter(cluster=preflight.cluster_id, why=Preflight.Why.ASKED)
        Preflight.objects.filter(pk__in=list(asked.values_list("pk", flat=True)[KEPT:])).delete()
        broadcast.nodes_changed()


def _has_answered(node: Node, preflight: Preflight, now: datetime) -> bool:
    """Return whether the node has answered. One that is out of contact counts as if it had: it will not answer."""
    own = node.own_checks
    return not node.is_in_contact(now) or (own is not None and own.answers == preflight.pk)


def _late(node: CheckedNode, limit_s: float) -> Check:
    sentence = f"{node.name} did not check itself within {limit_s:g} s; what it reported before is shown."
    return node.check("contact", CheckState.WARN, sentence)


def record_placed(placements: Iterable[Placement], now: datetime) -> None:
    """Keep with each attempt what was known of its nodes when it was placed on them."""
    by_attempt = grouped((placement.attempt_id, placement) for placement in placements)
    made = [_of_attempt(parts[0].attempt, parts, now) for parts in by_attempt.values()]
    Preflight.objects.bulk_create([one for one in made if one is not None])


def _of_attempt(attempt: Attempt, parts: Sequence[Placement], now: datetime) -> Preflight | None:
    if attempt.run.cluster_id is None:
        return None
    nodes = {node.id: node for node in checked_nodes([part.node for part in parts], now)}
    placed = [
        (nodes[part.node_id], range(part.first_rank, part.first_rank + part.num_ranks))
        for part in parts
        if nodes[part.node_id].own is not None
    ]
    if not placed:
        return None  # of versions that do not check themselves
    return Preflight(
        cluster_id=attempt.run.cluster_id,
        attempt=attempt,
        why=Preflight.Why.PLACED,
        nodes=[part.node_id for part in parts],
        results=to_builtins(checks_of_placement(placed, Needs.of(attempt.run.spec, attempt.run.estimate))),
        created_at=now,
        ended_at=now,
    )
