"""The attempts of a run, their machines, placements and slots, and the lines of its history."""

from datetime import datetime

from django.db import models
from django.utils import timezone
from msgspec.structs import replace

from runs.causes.allocations import AllocationEnding
from runs.models.base import Dated, Identified
from runs.models.clusters import Node
from runs.models.people import User
from runs.models.runs import Run, choices
from runs.values.columns import AlwaysTyped, AttemptFailure, IdleMark, MetricAlarm, SlowRank, Typed
from runs.values.status import Phase, Status
from trainyard.contract.base import convert, to_builtins
from trainyard.contract.causes import Cause, HangFinding
from trainyard.contract.limits import DEFAULT_LEASE_S, UNSENT_KEPT_S
from trainyard.contract.node_status import OutputState
from trainyard.contract.orders import Go
from trainyard.contract.reports import AttemptReport

REPLACE, REWIND = "replace", "rewind"  # why ranks are asked to end: another attempt takes their place


class Attempt(Identified):
    """One placement of a run on nodes. At most one per run is live."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField()  # 1, 2, … as people count
    fence = models.PositiveIntegerField()
    world_size = models.PositiveIntegerField()
    lease_s = models.FloatField(default=DEFAULT_LEASE_S)
    go = models.JSONField(null=True, blank=True)  # what the supervisors were sent, once all were ready
    trace = models.JSONField(null=True, blank=True)  # the steps to be traced, as sent to the supervisors
    # Why its ranks are asked to end: a StopDocument of runs.life.stopping.
    stop = models.JSONField(null=True, blank=True)
    # Nodes that it could grow onto: {"room": which, "since": Unix seconds}.
    growth = models.JSONField(null=True, blank=True, editable=False)
    # How an elastic run steps: {"step": the first seen, "at": Unix seconds, "step_s": the mean since then, once known}.
    pace = models.JSONField(null=True, blank=True, editable=False)
    told_use = models.PositiveBigIntegerField(default=0)  # the last CheckpointUse in the history
    go_at = models.DateTimeField(null=True, blank=True)
    contact_lost_at = models.DateTimeField(null=True, blank=True)
    settling_at = models.DateTimeField(null=True, blank=True)  # its outcome is known; it waits for what is on the way
    ended_at = models.DateTimeField(null=True, blank=True)
    reason_code = models.CharField(max_length=60, blank=True)
    reason_sentence = models.TextField(blank=True)
    hang = models.JSONField(null=True, blank=True)  # a HangFinding, while its ranks make no step: see `known_hang`
    cause = models.JSONField(null=True, blank=True)  # a trainyard.contract.causes.Cause, once it has ended
    failure = models.JSONField(null=True, blank=True)  # an AttemptFailure, once it has failed: see `failed`
    slow_ranks = models.JSONField(default=list, blank=True)  # of SlowRank: see `stragglers`
    alarms = models.JSONField(default=list, blank=True)  # of MetricAlarm: see `known_alarms`
    idle = models.JSONField(null=True, blank=True, editable=False)  # an IdleMark, while it idles: see `idle_mark`

    failed = Typed("failure", AttemptFailure)  # None where it did not fail, or where a person stopped it
    meeting = Typed("go", Go)  # where its ranks meet, and what they go on from; None before every node was ready
    known_hang = Typed("hang", HangFinding)  # of its ranks, or the one that they were ended for
    known_cause = Typed("cause", Cause)  # of its end; None before, and after a success
    stragglers = AlwaysTyped("slow_ranks", list[SlowRank])  # that slow the others down; after its end those at its end
    known_alarms = AlwaysTyped("alarms", list[MetricAlarm])  # values that broke a rule of the spec, the oldest first

    class Meta:
        ordering = ("number",)
        indexes = (models.Index(fields=("created_at", "id"), name="attempt_by_created"),)
        constraints = (
            models.UniqueConstraint(fields=("run", "fence"), name="one_attempt_per_fence"),
            models.UniqueConstraint(
                fields=("run",), condition=models.Q(ended_at=None), name="one_live_attempt_per_run"
            ),
        )

    def __str__(self) -> str:
        return f"attempt {self.number} of {self.run_id}"

    @property
    def is_replaced(self) -> bool:
        """Return whether another attempt takes its place as soon as its ranks have ended."""
        return self.stop is not None and self.stop["why"] in (REPLACE, REWIND)

    @property
    def idle_mark(self) -> IdleMark | None:
        """The mark of a run that idles; None of one that does not train, or of which nobody knows."""
        return convert(self.idle, IdleMark) if self.idle and self.run.status == Status.RUNNING else None

    def end(self, now: datetime, *, code: str, sentence: str, cause: Cause | None) -> None:
        """Write its end. ``cause`` is kept with the same sentence."""
        self.ended_at, self.reason_code, self.reason_sentence = now, code, sentence
        self.cause = cause and to_builtins(replace(cause, sentence=sentence))
        self.save(update_fields=["ended_at", "reason_code", "reason_sentence", "cause"])


class Placement(models.Model):
    """One node's part of an attempt, with the node's last report."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="placements")
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="placements")
    node_rank = models.PositiveIntegerField()
    first_rank = models.PositiveIntegerField()
    num_ranks = models.PositiveIntegerField()
    phase = models.CharField(max_length=12, choices=choices(Phase), default=Phase.PREPARING)
    report = models.JSONField(default=dict, blank=True)  # an AttemptReport: see `reported`
    reported_at = models.DateTimeField(null=True, blank=True)
    output = models.JSONField(default=dict, blank=True)  # an OutputState, once there is something in it
    gained = models.JSONField(default=dict, blank=True)  # left in the working folder: "num_files", "bytes", "files"
    leftovers = models.CharField(max_length=8, blank=True)  # what somebody has decided about it: upload or discard
    done_at = models.DateTimeField(null=True, blank=True)  # when its node had sent everything: it sends no more of it

    class Meta:
        ordering = ("node_rank",)
        constraints = (
            models.UniqueConstraint(fields=("attempt", "node"), name="one_placement_per_node"),
            models.UniqueConstraint(fields=("attempt", "node_rank"), name="one_placement_per_node_rank"),
        )

    def __str__(self) -> str:
        return f"{self.attempt} on {self.node}"

    @property
    def reported(self) -> AttemptReport:
        """The last report, or one without ranks where none has come yet."""
        about = {"attempt": self.attempt_id, "run": "", "fence": 0, "node": self.node_id, "phase": self.phase}
        return convert({"at": 0.0, **about, **self.report}, AttemptReport)

    @property
    def image(self) -> str:
        """The image of the ranks' containers; empty where they run in none, or it is not there yet."""
        return str(self.report.get("image") or "")

    @property
    def output_state(self) -> OutputState:
        """Progress of its node in sending the output. Read once: a page asks several times for each of many runs."""
        known: tuple[object, OutputState] | None = self.__dict__.get("_output_state")
        if known is None or known[0] is not self.output:
            known = self.__dict__["_output_state"] = (self.output, convert(self.output, OutputState))
        return known[1]

    def age_s(self, now: datetime) -> float:
        """Seconds since the node last reported on this attempt (since the placement if it never did)."""
        return (now - (self.reported_at or self.attempt.created_at)).total_seconds()

    def takes_files(self, now: datetime) -> bool:
        """Return whether its node may still store files: until it has sent all, and only for a time after the end."""
        ended_at = self.attempt.ended_at
        is_late = ended_at is not None and (now - ended_at).total_seconds() > UNSENT_KEPT_S
        return self.done_at is None and not is_late


class HeldSlot(models.Model):
    """A slot of a node that a placement holds, or its share of one that is divided. The unique index is what keeps it
    from being held twice. Of one slot there are either whole holders or shares: placing has a lock on the cluster."""

    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="held_slots")
    index = models.PositiveIntegerField()
    share = models.PositiveSmallIntegerField(default=0)
    num_shares = models.PositiveSmallIntegerField(default=1)
    placement = models.ForeignKey(Placement, on_delete=models.CASCADE, related_name="held_slots")

    class Meta:
        ordering = ("index",)
        constraints = (models.UniqueConstraint(fields=("node", "index", "share"), name="a_slot_is_held_once"),)

    def __str__(self) -> str:
        return f"slot {self.index} of {self.node}"


class Event(models.Model):
    """One line of a run's history."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events")
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, null=True, blank=True, related_name="events")
    at = models.DateTimeField(default=timezone.now)
    code = models.CharField(max_length=60)
    sentence = models.TextField()
    data = models.JSONField(default=dict, blank=True)
    actor = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")

    class Meta:
        ordering = ("at", "id")
        indexes = (
            models.Index(fields=("run", "at"), name="event_run_at"),
            models.Index(fields=("code",), name="event_by_code"),
        )

    def __str__(self) -> str:
        return self.sentence


class Allocation(Dated):
    """A request for machines that an engine that brings nodes has made to its system, for one attempt.

    The rows say what is wanted and what was last seen there. The system is the truth: a round of the engine compares
    both, and may be repeated at any time.
    """

    class State(models.TextChoices):
        REQUESTED = "requested"  # the system may not know it yet
        PENDING = "pending"
        RUNNING = "running"
        OVER = "over"  # nothing of it is left there

    attempt = models.OneToOneField(Attempt, on_delete=models.CASCADE, related_name="allocation")
    state = models.CharField(max_length=12, choices=State.choices, default=State.REQUESTED)
    job = models.CharField(max_length=60, blank=True)  # the system's name for it
    reason = models.CharField(max_length=80, blank=True)  # why it is pending, by the system's word
    sentence = models.TextField(blank=True)  # why its nodes are not there yet
    problem = models.TextField(blank=True)  # why the system could not be asked last time
    hosts = models.JSONField(default=list, blank=True)
    ends_at = models.DateTimeField(null=True, blank=True)  # when the system will take the machines back
    ending = models.JSONField(null=True, blank=True)  # an AllocationEnding: see `known_ending`
    submitted_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    cancelled_at = models.DateTimeField(null=True, blank=True)  # when we gave the machines back
    over_at = models.DateTimeField(null=True, blank=True)

    known_ending = Typed("ending", AllocationEnding)  # None while the system has not ended it, or where we gave it back

    class Meta:
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return f"machines of {self.attempt}"
