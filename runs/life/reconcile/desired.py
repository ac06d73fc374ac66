"""Wanted state of each node, as one document, rewritten from the rows: a lost message costs a tick, never a run."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal, cast

from django.conf import settings
from django.utils.crypto import salted_hmac
from msgspec.structs import replace

from runs.models import Attempt, CodeBundle, GoneRun, Node, Placement, Run, bundle_of
from runs.models.runs import log_rules_of
from runs.placing.spares import standby_of
from runs.records.metrics.models import Producer
from runs.rights.secrets.delivery import takes_storage_keys
from runs.serving.transport import redis
from runs.values.status import FINAL, Phase, Status, Wanted
from trainyard.contract import seals
from trainyard.contract.base import convert
from trainyard.contract.desired import Desired, DesiredAttempt, ProbeRequest, TraceRequest
from trainyard.contract.locks import lock
from trainyard.contract.node_status import ListedAttempt, NodeStatus
from trainyard.contract.orders import CodeReference, Order
from trainyard.contract.seals import node_scope, seal
from trainyard.contract.statuses import WantedPhase
from trainyard.grouping import grouped
from trainyard.spec.sections.environment import has_container
from trainyard.spec.sections.restarts import RestartRules

SETTLING_GRACE_S = 5.0
Watermarks = Mapping[tuple[str, int], list[Producer]]  # by run and fence
NO_WATERMARKS: Watermarks = MappingProxyType({})
Entries = dict[str, DesiredAttempt]  # by attempt
NO_PROBES: Mapping[str, ProbeRequest] = MappingProxyType({})


def write_desired(
    nodes: Iterable[Node],
    statuses: Mapping[str, NodeStatus],
    now: datetime,
    probes: Mapping[str, ProbeRequest] = NO_PROBES,
) -> None:
    """Write the nodes' documents. ``statuses`` are theirs, by id: attempts in them that we ended must stop. ``probes``
    are for nodes that get another list of peers; the others keep theirs."""
    nodes = list(nodes)
    if not nodes:
        return
    placements = Placement.objects.filter(node__in=nodes, attempt__ended_at=None)
    live = list(placements.defer("report").prefetch_related("attempt__run"))  # which many have in common
    here = {node.pk: node for node in nodes}
    for placement in live:
        placement.node = here[placement.node_id]
    ended = _ended_attempts(statuses, {placement.attempt_id for placement in live})
    runs = {one.run for own in ended.values() for one in own.values()} | {one.attempt.run_id for one in live}
    watermarks = grouped(((one.run_id, one.attempt), one) for one in Producer.objects.filter(run_id__in=runs))
    entries: dict[str, Entries] = {node.pk: {} for node in nodes} | _ended_entries(ended, watermarks)
    for placement in live:
        entries[placement.node_id][placement.attempt_id] = wanted_of_placement(placement, watermarks)
    free_memory, standby = _free_memory(statuses), standby_of(nodes, now)
    pipe: Any = redis().pipeline(transaction=False)
    epoch = _epoch()
    for node in nodes:
        key = seals.down_key(node.pk)
        desired = Desired(
            at=now.timestamp(),
            node=node.pk,
            epoch=epoch,
            server=settings.PUBLIC_URL,
            attempts=entries[node.pk],
            probe=probes.get(node.pk),
            free_memory=free_memory.get(node.pk, []),
            standby=standby.get(node.pk, []),
        )
        pipe.set(key, seal(node.key, key, desired))
    pipe.execute()


def _ended_attempts(statuses: Mapping[str, NodeStatus], live: set[str]) -> dict[str, dict[str, ListedAttempt]]:
    """Return by node its attempts that are not live, those that hold slots or of which it has not sent all."""
    listed = {attempt for status in statuses.values() for attempt in status.attempts} - live
    # An attempt that was placed a moment ago on another thread is live too.
    ended = listed - set(Attempt.objects.filter(pk__in=listed, ended_at=None).values_list("pk", flat=True))
    parts = Placement.objects.filter(attempt__in=ended).exclude(held_slots=None)
    held = set(parts.values_list("attempt_id", flat=True))
    return {
        node: {pk: one for pk, one in status.attempts.items() if pk in ended and (pk in held or not one.is_done)}
        for node, status in statuses.items()
    }


def _ended_entries(ended: Mapping[str, Mapping[str, ListedAttempt]], watermarks: Watermarks) -> dict[str, Entries]:
    """Have them stop, with the watermarks of their records and what was decided of output that was not sent."""
    attempts = {pk: one.run for own in ended.values() for pk, one in own.items()}
    parts = Placement.objects.filter(attempt__in=attempts).exclude(leftovers="")
    words = parts.values_list("node_id", "attempt_id", "leftovers")
    decisions = {(node, attempt): word for node, attempt, word in words}
    gone_runs = set(GoneRun.objects.filter(pk__in=set(attempts.values())).values_list("pk", flat=True))
    return {
        node: {
            pk: replace(
                _entry(one.run, one.fence, WantedPhase.STOP, watermarks),
                is_gone=one.run in gone_runs,
                leftovers=cast("Literal['', 'upload', 'discard']", decisions.get((node, pk), "")),
            )
            for pk, one in own.items()
        }
        for node, own in ended.items()
    }


def wanted_of_placement(placement: Placement, watermarks: Watermarks = NO_WATERMARKS) -> DesiredAttempt:
    """Return what is wanted of the placement's node."""
    attempt, node = placement.attempt, placement.node
    return replace(
        _entry(attempt.run_id, attempt.fence, wanted_of(attempt), watermarks),
        order=lock(node.key, node_scope("order", node.pk), order_for(placement))
        if placement.phase == Phase.PREPARING
        else None,
        go=attempt.meeting,
        trace=None if attempt.trace is None else convert(attempt.trace, TraceRequest),
        may_replace=RestartRules.of(attempt.run.spec).replaces_lost_nodes,
        grace_s=grace_of(attempt),
        hang=hang if (hang := attempt.known_hang) is not None and hang.acts else None,
    )


def grace_of(attempt: Attempt) -> float | None:
    """Return what its ranks have to end: none where somebody asked twice, what the spec says where somebody asked, and
    little where the outcome is known, since the others cannot step and somebody waits for their slots."""
    if attempt.stop is not None:
        return 0.0 if attempt.stop["at_once"] else None
    return None if attempt.run.wanted != Wanted.RUN else SETTLING_GRACE_S


def wanted_of(attempt: Attempt) -> WantedPhase:
    """``stop`` when a person wants an end or a pause, or the outcome is known; ``run`` after go; else ``prepare``."""
    if attempt.run.wanted != Wanted.RUN or attempt.settling_at is not None or attempt.ended_at is not None:
        return WantedPhase.STOP
    return WantedPhase.RUN if attempt.go else WantedPhase.PREPARE


def _entry(run: str, fence: int, wanted: WantedPhase, watermarks: Watermarks) -> DesiredAttempt:
    producers = watermarks.get((run, fence), [])
    return DesiredAttempt(
        run=run,
        fence=fence,
        wanted=wanted,
        grace_s=SETTLING_GRACE_S,
        watermarks={producer.producer: producer.watermark for producer in producers},
        resend=[producer.producer for producer in producers if producer.has_gap],
    )


def _free_memory(statuses: Mapping[str, NodeStatus]) -> dict[str, list[str]]:
    """Return by node the runs of whose states in its memory nobody goes on: they have ended, were paused or deleted."""
    held = {node: set(status.memory.runs) for node, status in statuses.items() if status.memory and status.memory.runs}
    if not held:
        return {}
    runs = Run.objects.filter(pk__in=set().union(*held.values())).exclude(status__in=[*FINAL, Status.PAUSED])
    kept = set(runs.values_list("pk", flat=True))
    return {node: sorted(here - kept) for node, here in held.items()}


def _epoch() -> str:
    """Return the stream's epoch, which lives as long as Valkey's data: another one means that the data was lost."""
    epoch = cast("bytes | None", redis().get(seals.EPOCH_KEY))
    if epoch is None:
        redis().set(seals.EPOCH_KEY, seals.new_key()[:16], nx=True)
        epoch = cast("bytes | None", redis().get(seals.EPOCH_KEY))
    return (epoch or b"").decode()


# Order to a node, with all that it needs to prepare its part of an attempt.


def order_for(placement: Placement) -> Order:
    attempt, node = placement.attempt, placement.node
    run, checkpoint = attempt.run, attempt.run.spec.get("checkpoint") or {}
    keeps_in_memory = checkpoint.get("every_steps") and checkpoint.get("replicate_every_steps")
    return Order(
        attempt=attempt.pk,
        run=run.pk,
        fence=attempt.fence,
        node=node.pk,
        node_name=node.name,
        node_rank=placement.node_rank,
        num_nodes=attempt.placements.count(),
        first_rank=placement.first_rank,
        num_ranks=placement.num_ranks,
        world_size=attempt.world_size,
        slots=list(placement.held_slots.values_list("index", flat=True)),
        shard=run.shard,
        name=run.name,
        spec=run.spec,
        accelerator=node.accelerator,
        code=_code_of(run),
        restart=run.attempts.filter(fence__lt=attempt.fence, go__isnull=False).count(),
        lease_s=attempt.lease_s,
        replica_key=secret_of(attempt.pk, "replicas") if keeps_in_memory else "",
        spark_secret=secret_of(attempt.pk, "spark") if "spark" in (run.spec["task"].get("launch") or []) else "",
        image_digest=image_digest(run),
        isolation_minimum=node.cluster.isolation_minimum,
        has_storage_keys=takes_storage_keys(run),
        encrypts=run.project.encrypts_files,
        log_rules=log_rules_of(run),
    )


def image_digest(run: Run) -> str:
    """Return the digest to which the first attempt resolved the tag of the run's image; empty until it has, and where
    the ranks run in no image of a registry."""
    if not has_container(run.spec):
        return ""
    placements = Placement.objects.filter(attempt__run=run).order_by("attempt__fence", "node_rank")
    return next(filter(None, (one.image.partition("@")[2] for one in placements)), "")


def secret_of(attempt: str, use: str) -> str:
    """Return the key with which nodes of the attempt seal what they send each other: no other attempt has it."""
    return salted_hmac(f"runs.{use}", attempt, secret=settings.SECRET_KEY, algorithm="sha256").hexdigest()


def _code_of(run: Run) -> CodeReference | None:
    sha256 = bundle_of(run)
    bundle = CodeBundle.objects.filter(project_id=run.project_id, sha256=sha256).first() if sha256 else None
    return CodeReference(bundle.sha256, bundle.size_bytes) if bundle else None
