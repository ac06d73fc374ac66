"""Machines that join, drain and leave."""

from typing import Literal

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from runs.models import Cluster, JoinToken, Node, Placement, Run, User
from runs.models.access import digest_of
from runs.models.clusters import slots_of
from runs.rights import valkey_users
from runs.rights.access import Forbidden, Permission, join_tokens_that_open, require, require_manager
from runs.serving import broadcast
from runs.tasks import reconcile_soon, schedule_soon
from runs.values.refused import Refused
from trainyard.contract.base import to_builtins
from trainyard.contract.limits import MAX_SLOTS
from trainyard.contract.machines import Inventory
from trainyard.contract.seals import new_key


def join_node(
    *,
    secret: str,
    name: str,
    address: str = "",
    slots: int | None = None,
    machine: Inventory | None = None,
    version: str = "",
    attempt: str = "",
) -> Node:
    """Let a machine in with a join token: new, or set up anew under its old name.

    Raises Forbidden for a token that is unknown, used or too old, Refused for the name of a node that is in contact or
    of another cluster, ValidationError for a bad name. A refused join does not use the token up. ``attempt`` is what a
    node names that an engine brought: its token is bound to one part of that attempt.
    """
    try:
        return _let_in(secret, name, address, slots, machine or Inventory(), version, attempt)
    except Forbidden:
        _record_second_use(secret, name, attempt)
        raise


def _let_in(
    secret: str, name: str, address: str, slots: int | None, machine: Inventory, version: str, attempt: str
) -> Node:
    now = timezone.now()
    with transaction.atomic():
        tokens = join_tokens_that_open().filter(digest=digest_of(secret))
        token = tokens.select_related("cluster", "placement__node").first()
        if token is None or not JoinToken.objects.filter(pk=token.pk, used_at=None).update(used_at=now):
            raise Forbidden("This join token is unknown, already used, or too old.")
        if token.placement is not None or attempt:
            node = _brought_node(token, name, attempt)
        else:
            node = Node.objects.filter(name=name).first() or Node(name=name, cluster=token.cluster)
            _check_name_is_free(node, token)
            node.slots = _slots_at_joining(node, slots, machine)
        node.cluster, node.key, node.address = token.cluster, new_key(), address
        node.inventory, node.version = to_builtins(machine), version
        node.joined_at, node.removed_at = now, None
        node.clean_fields(exclude=["cluster", "key"])
        node.save()
        JoinToken.objects.filter(pk=token.pk).update(node=node)
        transaction.on_commit(broadcast.nodes_changed)
        schedule_soon(node.cluster_id)
        if token.placement is not None:
            reconcile_soon(token.placement.attempt.run_id)
    return node


def _record_second_use(secret: str, name: str, attempt: str) -> None:
    """Write on the run's history that its join token came a second time: somebody copied it, or the system that was
    asked for machines started one twice."""
    used = JoinToken.objects.filter(digest=digest_of(secret), used_at__isnull=False, placement__attempt=attempt)
    token = used.select_related("node", "placement__attempt__run").first()
    if token is None or token.placement is None or token.node is None:
        return
    run = token.placement.attempt.run
    words = f"A machine that calls itself {name[:60]!r} came with the join token of {token.node.name} and was refused."
    if not run.events.filter(code="join-refused", sentence=words).exists():
        run.record("join-refused", words, attempt=token.placement.attempt)


def _brought_node(token: JoinToken, host: str, attempt: str) -> Node:
    """Return the row that was offered for this machine, with the host's name in front of its own."""
    placement = token.placement
    if placement is None or placement.attempt_id != attempt:
        raise Forbidden("This join token is bound to another attempt, or to none.")
    node = placement.node
    if node.kind != Node.Kind.OFFERED:
        raise Forbidden("The machine that this join token was for has left.")
    node.kind = Node.Kind.BROUGHT
    node.name = f"{host[:20]}-{node.name}"[:60]
    return node


def drain_node(*, actor: User, node: Node) -> Node:
    """Place nothing more on the node. Elastic runs leave it; what else trains there goes on."""
    require_manager(actor, node.cluster)
    return _set_draining(node, is_draining=True)


def enable_node(*, actor: User, node: Node) -> Node:
    require_manager(actor, node.cluster)
    return _set_draining(node, is_draining=False)


def set_slots(*, actor: User, node: Node, slots: int) -> Node:
    """Change how many ranks the node takes at once, until it is started with another ``--slots``. Raises
    ValidationError for a number that it cannot have, Refused where a run holds a slot beyond it."""
    require_manager(actor, node.cluster)
    most = most_slots(node)
    if not 1 <= slots <= most:
        raise ValidationError({"slots": f"Node {node.name} takes a number of slots from 1 to {most}; {slots} is not."})
    with transaction.atomic():
        Cluster.objects.select_for_update().get(pk=node.cluster_id)  # nothing is placed on it while we look
        least = node.least_slots()
        if slots < least:
            sentence = f"Node {node.name} keeps at least {least} slots: a run holds slot {least - 1} now."
            raise Refused("slots-held", sentence)
        node.slots = slots
        node.save(update_fields=["slots"])
        transaction.on_commit(broadcast.nodes_changed)
        schedule_soon(node.cluster_id)
    return node


def most_slots(node: Node) -> int:
    """Return the largest number of slots that an administrator may give the node: a slot of a GPU node is a GPU."""
    return min(len(node.machine.gpus or []) or MAX_SLOTS, MAX_SLOTS)


def remove_node(*, actor: User, node: Node) -> None:
    """Take the node off its cluster. Its name stays in the history of its runs; its key opens nothing any more."""
    require_manager(actor, node.cluster)
    with transaction.atomic():
        Cluster.objects.select_for_update().get(pk=node.cluster_id)  # nothing is placed on it while we look
        if node.placements.filter(attempt__ended_at=None).exists():
            raise Refused("node-busy", f"Node {node.name} still trains a run. Drain it and wait, or stop the run.")
        node.held_slots.all().delete()
        node.removed_at = timezone.now()
        node.key = new_key()
        node.save(update_fields=["removed_at", "key"])
        transaction.on_commit(lambda: valkey_users.remove(node))
        transaction.on_commit(broadcast.nodes_changed)


def _set_draining(node: Node, *, is_draining: bool) -> Node:
    with transaction.atomic():
        node.is_draining = is_draining
        node.save(update_fields=["is_draining"])
        transaction.on_commit(broadcast.nodes_changed)
        schedule_soon(node.cluster_id)
    return node


def _check_name_is_free(node: Node, token: JoinToken) -> None:
    if node.cluster_id != token.cluster_id and node.removed_at is None:
        raise Refused("name-taken", f"There is already a node named {node.name} in another cluster.")
    if node.removed_at is None and node.is_in_contact(timezone.now()):
        raise Refused("name-taken", f"A node named {node.name} is in contact already.")


def _slots_at_joining(node: Node, slots: int | None, machine: Inventory) -> int:
    """Return the slots that the node asks for, else those chosen for this machine before, else its default."""
    default = slots_of(machine)
    is_known = not node._state.adding and node.removed_at is None
    if slots is None and is_known and slots_of(node.machine) == default:
        slots = node.slots
    return max(min(slots or default, MAX_SLOTS), node.least_slots())


Word = Literal["upload", "discard"]
SENTENCES = {
    "upload": "{actor} asked for the files that were left on {nodes}: they are sent now.",
    "discard": "{actor} gave up the files that were left on {nodes}: they are deleted there within a day.",
}


def decide_leftovers(*, actor: User, run: Run, word: Word) -> Run:
    """Let nodes send what they still have of the run, or delete it with its attempt. Refused where there is nothing."""
    require(actor, run.project, Permission.RUNS_DELETE)
    left = [one for one in undecided(run) if not one.leftovers or one.leftovers != word]
    if not left:
        raise Refused("nothing-left", f"No node has files of run {run.name} that wait for a decision.")
    nodes = " and ".join(sorted({one.node.name for one in left}))
    with transaction.atomic():
        Placement.objects.filter(pk__in=[one.pk for one in left]).update(leftovers=word)
        run.record(f"leftovers-{word}", SENTENCES[word].format(actor=actor, nodes=nodes), actor=actor)
    return run


def undecided(run: Run) -> list[Placement]:
    """Return the parts of ended attempts whose nodes keep files that are not sent unasked."""
    found = Placement.objects.filter(attempt__run=run, done_at=None).exclude(attempt__ended_at=None)
    kept = found.filter(~Q(gained={}) | Q(output__num_refused__gt=0))
    return list(kept.select_related("node", "attempt").order_by("attempt__number", "node_rank"))
