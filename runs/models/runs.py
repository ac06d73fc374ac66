"""A run: what was asked for, and where it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypedDict

from django.conf import settings
from django.db import models, transaction
from django.db.models import Q, Value
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Concat, Left, Length, Lower
from django.db.models.lookups import GreaterThan
from django.dispatch import Signal
from django.utils import timezone

from runs.models.base import Identified
from runs.models.clusters import Cluster
from runs.models.indexes import ListIndex
from runs.models.jobs import Job
from runs.models.people import Project, User
from runs.serving import broadcast
from runs.values.columns import AlwaysTyped, Recovery, Rewind, StartPrediction, Typed
from runs.values.ids import new_id, shard_of
from runs.values.run_config import MAX_NOTES, RunDescription, clean_tags, why_not_kept
from runs.values.status import FINAL, LIVE, Status, Wanted, check_transition
from trainyard.contract.base import JsonObject, SpecDocument, to_builtins
from trainyard.contract.orders import LogRule
from trainyard.spec import read_spec, usable_nodes
from trainyard.spec.needs import needs_of
from trainyard.spec.sections.environment import has_container
from trainyard.spec.sections.log_rules import rules_of, stored_rules
from trainyard.spec.sections.resources import shares_of
from trainyard.spec.values.durations import seconds_of
from trainyard.spec.values.fields import priority_of

if TYPE_CHECKING:
    from runs.models.attempts import Attempt, Event

# Sent once a run has ended for good and that is committed, in the process that wrote it; ``run_id`` is its id.
run_ended = Signal()


def choices(names: Iterable[StrEnum]) -> list[tuple[str, str]]:
    return [(name.value, name.value) for name in names]


# A run's name and tags as one text in small letters, and how much of it stands in its indexes.
TEXT = models.TextField()
SEARCHED = Lower(Concat(Cast("name", TEXT), Value("\n", output_field=TEXT), Cast("tags", TEXT), output_field=TEXT))
LONGEST_FOUND = 500
PRUNED = "pruned"  # the reason's code of a run that its sweep stopped early
# The columns that lists of runs can be filtered by, all in their indexes.
FILTERED = ("archived_at", "status", "project", "found_by", "number")
HAS_ENDED = Q(ended_at__isnull=False)


class Size(TypedDict, total=False):
    """Resources that a run asks a cluster for; empty for a run that was logged elsewhere."""

    num_nodes: int  # of an elastic run: the least
    slots_per_node: int
    slot_shares: int  # into which a slot is divided, of which the run takes one
    accelerator: str
    node_counts: list[int] | None  # of an elastic run: all on which it trains, the least first
    priority: int
    in_container: bool
    limit_s: float | None
    needs: JsonObject | None


def size_of(spec: SpecDocument) -> Size:
    if "resources" not in spec:
        return {}
    resources = spec["resources"]
    counts = list(usable_nodes(read_spec(spec))) if isinstance(resources["nodes"], dict) else None
    return {
        "num_nodes": counts[0] if counts else int(resources["nodes"]),
        "slots_per_node": int(resources.get("processes_per_node", 1)),
        "slot_shares": shares_of(resources.get("slots_per_process", 1)),
        "accelerator": str(resources.get("accelerator", "auto")),
        "node_counts": counts,
        "priority": priority_of(spec.get("priority", "normal")),
        "in_container": has_container(spec),
        "limit_s": seconds_of(limit) if (limit := spec.get("limits", {}).get("time")) else None,
        "needs": to_builtins(needs) if (needs := needs_of(spec)) else None,
    }


def counts_up_to(counts: Sequence[int] | None, limit: int | None) -> tuple[int, ...]:
    return tuple(number for number in counts or () if limit is None or number <= limit)


class StaleStatus(RuntimeError):
    """The run's status changed since it was read; whoever wanted to change it must look again."""


class RunNumber(models.Model):
    """Counter of runs: no number comes twice, also not that of a run that was deleted."""

    def __str__(self) -> str:
        return str(self.pk)


def next_number() -> int:
    number = int(RunNumber.objects.create().pk)
    RunNumber.objects.filter(pk__lt=number).delete()
    return number


class RunQuerySet(models.QuerySet["Run"]):
    def live(self) -> RunQuerySet:
        return self.filter(status__in=list(LIVE))


class Run(Identified):
    """One training with a frozen copy of its spec, a status, a history."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="runs")
    # None: it was logged outside of Trainyard and sent here; then it has a local id, which its own processes chose.
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="runs", null=True, blank=True)
    local_id = models.CharField(max_length=32, null=True, blank=True, unique=True, editable=False)
    job = models.ForeignKey(Job, on_delete=models.SET_NULL, null=True, blank=True, related_name="runs")
    parent = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, blank=True, related_name="children")
    name = models.CharField(max_length=120)
    spec = models.JSONField()
    tags = models.JSONField(default=list, blank=True)
    # What words are looked for in: of few rows only the beginning, for an index takes no long text.
    found_by = models.GeneratedField(
        expression=Left(SEARCHED, LONGEST_FOUND), output_field=models.TextField(), db_persist=True
    )
    is_long = models.GeneratedField(
        expression=GreaterThan(Length(SEARCHED), LONGEST_FOUND), output_field=models.BooleanField(), db_persist=True
    )
    recipe = models.GeneratedField(
        expression=KT("spec__task__recipe"), output_field=models.TextField(), db_persist=True
    )
    dataset = models.GeneratedField(
        expression=KT("spec__task__data__dataset"), output_field=models.TextField(), db_persist=True
    )
    notes = models.TextField(blank=True)
    config = models.JSONField(default=dict, blank=True)  # what the training was configured with
    described_at = models.DateTimeField(null=True, editable=False)  # when config or spec were changed; None: never
    number = models.BigIntegerField(default=next_number, unique=True, editable=False)  # see runs.finding.index

    estimate = models.JSONField(null=True, blank=True, editable=False)  # what the planner said when it was submitted

    status = models.CharField(max_length=12, choices=choices(Status), default=Status.QUEUED, editable=False)
    wanted = models.CharField(max_length=8, choices=choices(Wanted), default=Wanted.RUN, editable=False)
    reason_code = models.CharField(max_length=60, blank=True)
    reason_sentence = models.TextField(blank=True)
    reason_evidence = models.JSONField(default=dict, blank=True)

    # What the spec asks a cluster for, beside it: a long queue is placed without reading every spec.
    num_nodes = models.PositiveIntegerField(null=True, blank=True, editable=False)
    slots_per_node = models.PositiveIntegerField(null=True, blank=True, editable=False)
    slot_shares = models.PositiveSmallIntegerField(default=1, editable=False)
    in_container = models.BooleanField(null=True, editable=False)  # None: it ended before runs had this
    accelerator = models.CharField(max_length=8, blank=True, editable=False)
    # Of an elastic run: the numbers of nodes on which it trains, the least first. And the most that a person wants.
    node_counts = models.JSONField(null=True, blank=True, editable=False)
    node_limit = models.PositiveIntegerField(null=True, blank=True, editable=False)
    priority = models.SmallIntegerField(default=50, editable=False)  # 0 to 100, of which the highest comes first
    num_steps = models.BigIntegerField(null=True, editable=False)  # of a recipe
    planned_s = models.FloatField(null=True, editable=False)  # that they take by the plan
    limit_s = models.FloatField(null=True, editable=False)
    needs = models.JSONField(null=True, editable=False)  # beside slots: a Needs; None: nothing
    # When control thinks that it starts, or did when it waited: a StartPrediction.
    predicted_start = models.JSONField(null=True, editable=False)

    fence = models.PositiveIntegerField(default=0, editable=False)  # the newest attempt's; only grows
    shard = models.PositiveIntegerField(default=0, editable=False)  # for good: its records may be on their way
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="runs")
    started_at = models.DateTimeField(null=True, blank=True)  # the first time that it was RUNNING
    ended_at = models.DateTimeField(null=True, blank=True)
    changed_at = models.DateTimeField(auto_now=True)
    archived_at = models.DateTimeField(null=True, blank=True)
    recovery = models.JSONField(null=True, blank=True, editable=False)  # a Recovery: see `restarts`
    rewinds = models.JSONField(default=list, blank=True, editable=False)  # of Rewind: see `known_rewinds`
    # When it is to be started again; None: it is not, or an attempt is live.
    recover_at = models.DateTimeField(null=True, editable=False)
    heartbeat_at = models.DateTimeField(null=True, editable=False)  # the last of a run outside of Trainyard

    start_prediction = Typed("predicted_start", StartPrediction)  # None where nobody could say
    restarts = AlwaysTyped("recovery", Recovery)  # since a person started it last
    known_rewinds = AlwaysTyped("rewinds", list[Rewind])  # the oldest first

    objects = RunQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at", "-id")
        indexes = (
            ListIndex(fields=("created_at", "id"), beside=FILTERED, name="run_by_created"),
            ListIndex(fields=("name", "id"), beside=FILTERED, name="run_by_name"),
            ListIndex(fields=("status", "id"), beside=FILTERED, name="run_by_status"),
            ListIndex(fields=("ended_at", "id"), beside=FILTERED, name="run_by_ended", condition=HAS_ENDED),
            ListIndex(
                fields=("created_at", "id"),
                beside=("status", "project", "local_id", "archived_at"),
                name="run_live",
                condition=Q(ended_at=None),
            ),
            ListIndex(
                fields=("cluster", "status", "-priority", "created_at", "id"),
                beside=("wanted", "project"),
                name="run_queue",
            ),
            models.Index(fields=("id",), condition=Q(is_long=True), name="run_long"),
            models.Index(  # without runs that have not ended: SQLite would take it for their lists, and sort
                fields=("cluster", "recipe", "ended_at"), name="run_of_recipe", condition=HAS_ENDED
            ),
            models.Index(fields=("project", "dataset", "created_at"), name="run_of_dataset"),
            models.Index(fields=("job", "created_at", "id"), name="run_of_job"),
            models.Index(fields=("cluster", "created_at"), condition=Q(predicted_start__isnull=False), name="run_told"),
            models.Index(fields=("described_at",), condition=Q(described_at__isnull=False), name="run_described"),
        )

    def __str__(self) -> str:
        return f"{self.name} ({self.id})"

    @classmethod
    def make(cls, **values: Any) -> Run:
        """Insert a new run; its id says which ingest will store what it sends."""
        run_id = new_id()
        size, step = size_of(values["spec"]), (values.get("estimate") or {}).get("step_time", {}).get("total")
        run = cls(id=run_id, shard=shard_of(run_id, settings.INGEST_SHARDS), **size, **values)
        run.num_steps = run.steps
        run.planned_s = step * run.steps if step and run.steps else None
        run.save(force_insert=True)
        return run

    @property
    def is_final(self) -> bool:
        return self.status in FINAL

    @property
    def is_pruned(self) -> bool:
        return self.status == Status.CANCELLED and self.reason_code == PRUNED

    @property
    def is_local(self) -> bool:
        """Return whether it was logged outside of Trainyard: no node has it, and nobody here can start or stop it."""
        return self.local_id is not None

    @property
    def is_live(self) -> bool:
        return self.status in LIVE

    @property
    def steps(self) -> int | None:
        """The number of optimizer steps that the spec asks for; None for a user's script."""
        steps = self.spec.get("train", {}).get("steps") if "recipe" in self.spec.get("task", {}) else None
        return int(steps) if steps is not None else None

    @property
    def counts_steps(self) -> bool:
        """Return whether the steps of its series are training steps: a benchmark of the network has bytes there."""
        return bool(self.spec.get("task", {}).get("recipe") != "communication-benchmark")

    @property
    def saves_at_stop(self) -> bool:
        """Return whether a Stop makes its ranks save a checkpoint: those of a recipe that trains and keeps some."""
        return bool("recipe" in self.spec.get("task", {}) and self.spec.get("checkpoint", {}).get("every_steps"))

    @property
    def is_script(self) -> bool:
        """Return whether it runs a script of the user, which may keep checkpoints that nobody here knows of."""
        return "script" in self.spec.get("task", {})

    @property
    def allowed_counts(self) -> tuple[int, ...]:
        """Numbers of nodes that an elastic run may have now, the least first."""
        return counts_up_to(self.node_counts, self.node_limit)

    def live_attempt(self) -> Attempt | None:
        return self.attempts.filter(ended_at=None).first()

    def move_to(
        self,
        status: Status,
        *,
        code: str,
        sentence: str,
        evidence: JsonObject | None = None,
        actor: User | None = None,
        attempt: Attempt | None = None,
        recover_at: datetime | None = None,
    ) -> None:
        """Change the status, in one compare-and-set, and write the event that says why.

        Raises TransitionError where the present status does not lead there, and StaleStatus where the row was
        changed by somebody else since it was read.
        """
        current = Status(self.status)
        check_transition(current, status, is_local=self.is_local)
        now = timezone.now()
        changes: dict[str, Any] = {
            "status": status,
            "reason_code": code,
            "reason_sentence": sentence,
            "reason_evidence": evidence or {},
            "changed_at": now,
            "recover_at": recover_at,
        }
        if status == Status.RUNNING and self.started_at is None:
            changes["started_at"] = now
        if status in FINAL:
            changes["ended_at"] = now
        elif recover_at is not None or (current == Status.STOPPING and status == Status.QUEUED):
            changes["wanted"] = Wanted.RUN  # what its last attempt was ended for is done
        elif current in (*FINAL, Status.PAUSED):  # restarted or resumed: what was wanted before is over
            changes |= {"ended_at": None, "archived_at": None, "wanted": Wanted.RUN}
            changes["recovery"] = to_builtins(Recovery(after_fence=self.fence))  # its restarts count anew
        with transaction.atomic():
            if not Run.objects.filter(pk=self.pk, status=current).update(**changes):
                raise StaleStatus(f"run {self.pk} is no longer {current}")
            for field, value in changes.items():
                setattr(self, field, value)
            data = {"from": current, "to": status, **({"evidence": evidence} if evidence else {})}
            self.record(code, sentence, data=data, actor=actor, attempt=attempt, at=now)
            if status in FINAL:
                transaction.on_commit(lambda: run_ended.send_robust(sender=Run, run_id=self.pk))

    def correct_reason(self, *, code: str, sentence: str, instead_of: str, attempt: Attempt) -> None:
        """Replace the reason of a status that stays, and write the event, unless it is ``instead_of`` no more."""
        with transaction.atomic():
            changed = Run.objects.filter(pk=self.pk, status=self.status, reason_code=instead_of).update(
                reason_code=code, reason_sentence=sentence, reason_evidence={}, changed_at=timezone.now()
            )
            if changed:
                self.record(code, sentence, attempt=attempt)

    def record(
        self,
        code: str,
        sentence: str,
        *,
        data: JsonObject | None = None,
        actor: User | None = None,
        attempt: Attempt | None = None,
        at: datetime | None = None,
    ) -> Event:
        """Write one line of the run's history, at this moment by default, and notify its pages."""
        moment = at or timezone.now()
        event = self.events.create(
            attempt=attempt, code=code, sentence=sentence, data=data or {}, actor=actor, at=moment
        )
        transaction.on_commit(lambda: broadcast.run_changed(self.pk))
        return event

    def describe(self, said: RunDescription, *, is_script: bool = False) -> str:
        """Take over a description; return why its configuration is not kept, "" where it is. A script, which repeats
        itself, adds to the tags and to notes that are empty."""
        with transaction.atomic():
            now = Run.objects.select_for_update().get(pk=self.pk)
            changes: dict[str, Any] = {}
            config = {**now.config, **(said.config or {})}
            problem = why_not_kept(config) if said.config else ""
            if config != now.config and not problem:
                changes["config"] = config
            own = {"group": said.group, "job_type": said.job_type}
            local = {**now.spec.get("local", {}), **{name: text for name, text in own.items() if text is not None}}
            if now.is_local and local != now.spec["local"]:
                changes["spec"] = {**now.spec, "local": local}
            if changes:
                changes["described_at"] = timezone.now()
            if said.tags is not None:
                changes["tags"] = clean_tags([*now.tags, *said.tags] if is_script else said.tags)
            if said.notes is not None and not (is_script and now.notes):
                changes["notes"] = said.notes[:MAX_NOTES]
            changes = {name: value for name, value in changes.items() if value != getattr(now, name)}
            if changes:
                Run.objects.filter(pk=self.pk).update(**changes)
                transaction.on_commit(lambda: broadcast.run_changed(self.pk))
        for name, value in changes.items():
            setattr(self, name, value)
        return problem

    def next_fence(self) -> int:
        """Take and return the next fence number, on the row itself, so that it never repeats."""
        Run.objects.filter(pk=self.pk).update(fence=models.F("fence") + 1)
        self.refresh_from_db(fields=["fence"])
        return self.fence


class GoneRun(models.Model):
    """A run that was deleted. Nodes ask which of those whose checkpoints they have are gone; only what stands here is,
    so that a node that is given another server's disk, or another server, deletes nothing."""

    id = models.CharField(primary_key=True, max_length=12)
    at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.id


class RunTime(models.Model):
    """A row for each run that has ended; the columns are those of runs.records.time_use.split.TimeUse, in seconds."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, primary_key=True, related_name="time")
    ended_at = models.DateTimeField()  # of the run: where it differs now, the run was restarted since
    queued_s = models.FloatField()
    starting_s = models.FloatField()
    productive_s = models.FloatField()
    recomputed_s = models.FloatField()
    checkpoint_s = models.FloatField()
    detection_s = models.FloatField()
    restart_s = models.FloatField()
    paused_s = models.FloatField()

    def __str__(self) -> str:
        return f"time of {self.run_id}"


class StartTerms(models.Model):
    """What a run waits for beside room, beside its spec: a long queue is placed without reading every spec. Times of
    it, and its place in an array; a row for each run that has any."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, primary_key=True, related_name="start_terms")
    not_before = models.DateTimeField(null=True)
    deadline = models.DateTimeField(null=True)
    array = models.CharField(max_length=12, blank=True, db_index=True)  # one id for all its runs
    at_once = models.PositiveSmallIntegerField(default=0)  # of the array; 0: as many as there is room for

    def __str__(self) -> str:
        return f"terms of {self.run_id}"

    @property
    def due(self) -> float | None:
        """Return the deadline in Unix seconds."""
        return self.deadline.timestamp() if self.deadline else None

    @property
    def earliest(self) -> float | None:
        """Return in Unix seconds before when it does not start."""
        return self.not_before.timestamp() if self.not_before else None


class Dependency(models.Model):
    """A run that another waits for. None: it was deleted."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="dependencies")
    other = models.ForeignKey(Run, on_delete=models.SET_NULL, null=True, related_name="dependents")
    name = models.CharField(max_length=120)  # of the other
    must_succeed = models.BooleanField()

    def __str__(self) -> str:
        return f"{self.run_id} waits for {self.name}"


def log_rules_of(run: Run) -> list[LogRule]:
    """Return the rules of its spec and those of its cluster, but for labels that the spec has rules of its own for."""
    own = rules_of(run.spec)
    labels = {rule.label for rule in own}
    of_cluster = stored_rules(run.cluster.log_rules if run.cluster is not None else [])
    return [*own, *(rule for rule in of_cluster if rule.label not in labels)]
