"""What a node must know to prepare its part of an attempt."""

from __future__ import annotations

from django.conf import settings
from django.utils.crypto import salted_hmac

from runs.models import CodeBundle, Placement, Run, bundle_of
from runs.models.log_rules import log_rules_of
from runs.secrets.delivery import takes_storage_keys
from trainyard.contract.base import SpecDocument
from trainyard.contract.locks import lock
from trainyard.contract.orders import CodeReference, Locked, Order
from trainyard.contract.seals import order_scope
from trainyard.spec.sections.environment import has_container


def locked_order(placement: Placement) -> Locked:
    """Return the order as it travels."""
    node = placement.node
    return lock(node.key, order_scope(node.pk), order_for(placement))


def order_for(placement: Placement) -> Order:
    attempt, node = placement.attempt, placement.node
    run = attempt.run
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
        replica_key=replica_key(attempt.pk) if keeps_in_memory(run.spec) else "",
        image_digest=image_digest(run),
        isolation_minimum=node.cluster.isolation_minimum,
        has_storage_keys=takes_storage_keys(run),
        log_rules=log_rules_of(run),
    )


def keeps_in_memory(spec: SpecDocument) -> bool:
    """Whether ranks of a run of this spec keep states in the memory of their nodes."""
    checkpoint = spec.get("checkpoint") or {}
    return bool(checkpoint.get("every_steps") and checkpoint.get("replicate_every_steps"))


def image_digest(run: Run) -> str:
    """Return the digest to which the first attempt resolved the tag of the run's image; empty until it has, and where
    the ranks run in no image of a registry."""
    if not has_container(run.spec):
        return ""
    for placement in Placement.objects.filter(attempt__run=run).order_by("attempt__fence", "node_rank"):
        _, _, digest = placement.image.partition("@")
        if digest:
            return digest
    return ""


def replica_key(attempt: str) -> str:
    """Return the key with which nodes of the attempt seal what they send each other: no other attempt has it."""
    return salted_hmac("runs.replicas", attempt, secret=settings.SECRET_KEY, algorithm="sha256").hexdigest()


def _code_of(run: Run) -> CodeReference | None:
    sha256 = bundle_of(run)
    bundle = CodeBundle.objects.filter(project_id=run.project_id, sha256=sha256).first() if sha256 else None
    return CodeReference(bundle.sha256, bundle.size_bytes) if bundle else None
