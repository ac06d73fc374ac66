"""Clusters of nodes, where training runs."""

from datetime import datetime
from typing import TypeVar

from django.core.validators import MaxValueValidator
from django.db import models
from django.utils import timezone

from runs.models.base import Identified
from runs.models.people import Project, User
from runs.values.columns import AlwaysTyped, Check, CheckState
from runs.values.ids import new_id
from trainyard.contract.base import BadDocument, JsonObject, convert
from trainyard.contract.limits import CONTACT_LOST_S
from trainyard.contract.machines import HIGHEST_LEVEL, Cpu, Health, Inventory, SandboxLevel, SelfCheck

MAX_SPARES = 10_000  # of one cluster
T = TypeVar("T")
IDLE_ACTIONS = {
    "off": "Off: nobody looks for them",
    "mark": "Mark them, for their people to see",
    "stop": "Mark them, and stop them with a save as long again later",
}


class Cluster(Identified):
    """A named set of nodes with one engine, a region and labels."""

    name = models.SlugField(max_length=60, unique=True)
    engine = models.CharField(max_length=20, default="celery")  # one of runs.engines.ENGINES
    # What the engine must know of its system; a struct of the engine reads it. Empty for one whose nodes stay.
    settings = models.JSONField(default=dict, blank=True)
    # Those of the settings, locked: see cluster_settings.
    secrets = models.JSONField(default=dict, blank=True, editable=False)
    # Of its machines that stay, where its engine brings some: see runs.engines.pools.
    pool = models.JSONField(default=dict, blank=True, editable=False)
    region = models.CharField(max_length=60, blank=True)
    labels = models.JSONField(default=dict, blank=True)
    log_rules = models.JSONField(default=list, blank=True)  # for the logs of all runs on it: see log_rules_of
    # Which projects' runs and datasets may be on its nodes. None: nobody's, as of a cluster that is just being set up.
    projects = models.ManyToManyField(Project, blank=True, related_name="clusters")
    # So many idle nodes prepare for the loss of another one: see runs.placing.spares.
    spares = models.PositiveIntegerField(default=1, validators=[MaxValueValidator(MAX_SPARES)])
    scheduling = models.CharField(max_length=40, default="fair-share")  # one of runs.placing.policies.POLICIES
    topology = models.JSONField(default=list, blank=True)  # labels of nodes, near to far: switch, rack
    half_life_days = models.FloatField(default=7.0)  # in which the use of slots counts half: see runs.placing.shares
    spared_minutes = models.FloatField(default=0.0)  # for which a run that has started makes no room for others
    slot_hour_price = models.FloatField(null=True, blank=True)  # in the currency of its owners
    idle_action = models.CharField(max_length=4, default="mark")  # one of IDLE_ACTIONS
    idle_below = models.FloatField(default=5.0)  # percent of use of the accelerators of a run
    idle_minutes = models.FloatField(default=30.0)  # over which it is measured
    # Whether members of its projects may run commands beside the ranks of their runs: see runs.rights.access.
    interactive = models.BooleanField(default=False)
    # Nodes with a lower sandbox level get no runs: a `SandboxLevel`, see docs/isolation.md.
    isolation_minimum = models.PositiveSmallIntegerField(default=0, validators=[MaxValueValidator(int(HIGHEST_LEVEL))])

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class NodeQuerySet(models.QuerySet["Node"]):
    def present(self) -> "NodeQuerySet":
        """The nodes that have joined and neither left nor were removed."""
        return self.filter(removed_at=None, kind__in=(Node.Kind.STAYS, Node.Kind.BROUGHT))

    def registered(self) -> "NodeQuerySet":
        """The nodes that are present, and the machines that an engine may bring."""
        return self.filter(removed_at=None).exclude(kind=Node.Kind.LEFT)


class Node(models.Model):
    """One machine that runs a node worker. Its slots are its GPUs, or CPU slots where it has none."""

    class Kind(models.TextChoices):
        STAYS = "stays"
        OFFERED = "offered"  # a machine that an engine may bring: nobody has joined as it
        BROUGHT = "brought"  # it has joined for one attempt
        LEFT = "left"  # its machine was given back; its last records are still taken

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="nodes")
    name = models.SlugField(max_length=60, unique=True)
    key = models.CharField(max_length=64, editable=False)  # HMAC key of both directions; never leaves the server again
    address = models.CharField(max_length=120, blank=True)
    slots = models.PositiveIntegerField(default=1)
    inventory = models.JSONField(default=dict, blank=True)
    health = models.JSONField(default=dict, blank=True)
    self_check = models.JSONField(default=dict, blank=True)  # a SelfCheck: see `own_checks`
    version = models.CharField(max_length=40, blank=True)
    standby = models.JSONField(default=dict, blank=True)  # what a spare node has prepared: as NodeStatus.standby
    is_draining = models.BooleanField(default=False)
    joined_at = models.DateTimeField(auto_now_add=True)
    seen_at = models.DateTimeField(null=True, blank=True)
    removed_at = models.DateTimeField(null=True, blank=True)
    kind = models.CharField(max_length=8, choices=Kind.choices, default=Kind.STAYS)

    objects = NodeQuerySet.as_manager()

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    @property
    def machine(self) -> Inventory:
        """The node's own description of its machine. A row of an earlier version may hold anything: then nothing."""
        return _reported(self.inventory, Inventory) or Inventory()

    @property
    def health_now(self) -> Health | None:
        """The last health report of the node; None where it has not reported, or reported something else."""
        return _reported(self.health, Health)

    @property
    def own_checks(self) -> SelfCheck | None:
        """The node's last check of itself; None where it has not reported, or reported something else."""
        return _reported(self.self_check, SelfCheck)

    @property
    def accelerator(self) -> str:
        """``gpu`` when the inventory has GPUs, else ``cpu``."""
        return "gpu" if self.machine.gpus else "cpu"

    @property
    def sandbox_level(self) -> int | None:
        """The level of isolation of its ranks; None where nobody knows yet. A node of an earlier version counts as 0 or
        1 by its mechanism."""
        machine = self.machine
        if machine.sandbox is not None:
            return machine.sandbox.level
        if machine.isolation is None:
            return None if self.kind == Node.Kind.OFFERED else SandboxLevel.NONE
        return SandboxLevel.NONE if machine.isolation == "none" else SandboxLevel.USER

    def least_slots(self) -> int:
        """Return how many slots it needs for the highest one that is held."""
        highest: int | None = self.held_slots.aggregate(highest=models.Max("index"))["highest"]
        return 1 if highest is None else highest + 1

    def is_in_contact(self, now: datetime) -> bool:
        return self.seen_at is not None and (now - self.seen_at).total_seconds() <= CONTACT_LOST_S


def _reported(document: JsonObject, kind: type[T]) -> T | None:
    try:
        return convert(document, kind) if document else None
    except BadDocument:
        return None


def slots_of(machine: Inventory) -> int:
    """Return the slots of a machine: one for each GPU; without any, one for each processor.

    A CPU node that shares its machine with others has two slots all the same where the machine has two processors, so
    that a run of two processes fits on one node.
    """
    if machine.gpus:
        return len(machine.gpus)
    cpu = machine.cpu or Cpu()
    return max(1, cpu.count or 0, min(2, cpu.machine_count or 0))


class JoinToken(Identified):
    """Lets one machine join a cluster, once. Only the digest of its secret is kept."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="join_tokens")
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    by_token = models.ForeignKey("runs.Token", on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)
    node = models.ForeignKey(Node, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    for_pool = models.BooleanField(default=False)  # control made it, for a machine that stays
    # The part of an attempt that it lets a machine in for: the node serves that attempt alone. None: the node stays.
    placement = models.OneToOneField(
        "runs.Placement", on_delete=models.CASCADE, null=True, blank=True, related_name="join_token"
    )

    def __str__(self) -> str:
        return f"join token for {self.cluster}"


class Preflight(models.Model):
    """The checks of some nodes of a cluster. Until it has ended the nodes are at it."""

    class Why(models.TextChoices):
        ASKED = "asked"
        PLACED = "placed"  # an attempt was placed on these nodes

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="preflights")
    attempt = models.ForeignKey(
        "runs.Attempt", on_delete=models.CASCADE, null=True, blank=True, related_name="preflights"
    )
    why = models.CharField(max_length=10, choices=Why.choices)
    asked_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    nodes = models.JSONField(default=list)  # ids
    collective = models.JSONField(default=list)  # ids of those over which a collective goes, in the order of its ranks
    results = models.JSONField(default=list)  # of Check: see `checks`
    created_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True, blank=True)

    checks = AlwaysTyped("results", list[Check])

    class Meta:
        ordering = ("-created_at",)
        indexes = (models.Index(fields=("cluster", "-created_at"), name="preflight_by_cluster"),)
        constraints = (
            models.UniqueConstraint(
                fields=("cluster",), condition=models.Q(ended_at=None), name="one_open_preflight_per_cluster"
            ),
        )

    def __str__(self) -> str:
        return f"preflight {self.pk} of {self.cluster_id}"

    @property
    def state(self) -> str:
        """``running``, or the worst state of its checks."""
        if self.ended_at is None:
            return "running"
        states = {check.state for check in self.checks}
        return next((str(one) for one in (CheckState.FAIL, CheckState.WARN) if one in states), str(CheckState.OK))
