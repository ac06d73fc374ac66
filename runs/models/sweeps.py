"""A sweep: runs made by a search over the fields of a base spec; its trials, and what they reported."""

from functools import cached_property

from django.db import models, transaction
from django.utils import timezone

from runs.models.clusters import Cluster
from runs.models.people import Project, User
from runs.models.runs import Run, choices
from runs.serving import broadcast
from runs.values.ids import new_id
from trainyard.contract.statuses import SWEEP_FINAL, TRIAL_FINAL, SweepStatus, TrialState
from trainyard.spec.sweeps import SweepSpec, parse_sweep

# States that may follow each state.
TRANSITIONS: dict[SweepStatus, frozenset[SweepStatus]] = {
    SweepStatus.RUNNING: frozenset({SweepStatus.PAUSED, SweepStatus.STOPPING, *SWEEP_FINAL}),
    SweepStatus.PAUSED: frozenset({SweepStatus.RUNNING, SweepStatus.STOPPING, *SWEEP_FINAL}),
    SweepStatus.STOPPING: frozenset(SWEEP_FINAL),
    # An ended sweep goes on where it gets more trials: a wider space, one by hand, or one that was pruned.
    SweepStatus.SUCCEEDED: frozenset({SweepStatus.RUNNING}),
    SweepStatus.FAILED: frozenset({SweepStatus.RUNNING}),
    SweepStatus.CANCELLED: frozenset({SweepStatus.RUNNING}),
}


class Sweep(models.Model):
    """A search over values of a spec, and how far it is."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="sweeps")
    cluster = models.ForeignKey(Cluster, on_delete=models.SET_NULL, null=True, blank=True, related_name="sweeps")
    name = models.CharField(max_length=120)
    spec = models.JSONField()  # of a SweepSpec, as checked
    base_spec = models.JSONField()  # with its code pinned: what is edited later does not change the sweep
    status = models.CharField(max_length=10, choices=choices(SweepStatus), default=SweepStatus.RUNNING)
    reason_code = models.CharField(max_length=60, blank=True)
    reason_sentence = models.TextField(blank=True)
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="sweeps")
    created_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True, blank=True)
    # When it began to spend its budget of time, anew when it is resumed; and what it had spent before.
    active_since = models.DateTimeField(null=True, blank=True)
    active_s = models.FloatField(default=0.0)
    study_state = models.JSONField(default=dict, blank=True)  # the sampler's own
    cursor = models.PositiveBigIntegerField(default=0)  # counts changes of the sweep and its trials
    best = models.ForeignKey("Trial", on_delete=models.SET_NULL, null=True, blank=True, related_name="+")

    class Meta:
        ordering = ("-created_at", "-id")
        indexes = (
            models.Index(fields=("project", "created_at", "id"), name="sweep_by_project"),
            models.Index(fields=("status",), name="sweep_by_status"),
        )

    def __str__(self) -> str:
        return f"{self.name} ({self.id})"

    @cached_property
    def parsed(self) -> SweepSpec:
        return parse_sweep(self.spec)

    @property
    def is_final(self) -> bool:
        return self.status in SWEEP_FINAL

    def move_to(self, status: SweepStatus, *, code: str, sentence: str) -> bool:
        """Change the status in one compare-and-set. False where the present one does not lead there, or was changed by
        somebody else since it was read."""
        if status not in TRANSITIONS[SweepStatus(self.status)]:
            return False
        now = timezone.now()
        active_s = self.active_s_at(now.timestamp())
        changes = {
            "status": status,
            "reason_code": code,
            "reason_sentence": sentence,
            "ended_at": now if status in SWEEP_FINAL else None,
            "active_since": now if status == SweepStatus.RUNNING else None,
            "active_s": active_s,
        }
        with transaction.atomic():
            if not Sweep.objects.filter(pk=self.pk, status=self.status).update(**changes):
                return False
            for name, value in changes.items():
                setattr(self, name, value)
            self.changed()
        return True

    def active_s_at(self, now: float) -> float:
        """Return the seconds for which it was RUNNING until ``now`` (Unix seconds)."""
        since = self.active_since
        return self.active_s + (max(0.0, now - since.timestamp()) if since is not None else 0.0)

    def changed(self) -> None:
        """Count a change, and notify pages once it is committed."""
        Sweep.objects.filter(pk=self.pk).update(cursor=models.F("cursor") + 1)
        transaction.on_commit(lambda: broadcast.sweep_changed(self.pk))

    def live_trials(self) -> "models.QuerySet[Trial]":
        return self.trials.live()


class TrialQuerySet(models.QuerySet["Trial"]):
    def live(self) -> "TrialQuerySet":
        return self.filter(state__in=(TrialState.WAITING, TrialState.RUNNING))


class Trial(models.Model):
    """One set of parameters. A WAITING one gets its run in the transaction that makes it RUNNING, so that no trial has
    two; further runs of the same parameters with other seeds are TrialRuns."""

    sweep = models.ForeignKey(Sweep, on_delete=models.CASCADE, related_name="trials")
    number = models.PositiveIntegerField()
    state = models.CharField(max_length=8, choices=choices(TrialState), default=TrialState.WAITING)
    reason = models.TextField(blank=True)  # why it failed or was stopped
    parameters = models.JSONField(default=dict)
    value = models.FloatField(null=True, blank=True)  # of the first objective
    values = models.JSONField(default=list, blank=True)  # of all objectives, where there are several
    run = models.OneToOneField(Run, on_delete=models.SET_NULL, null=True, blank=True, related_name="trial")
    # Of population based training: whose checkpoint it goes on from.
    parent = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, blank=True, related_name="children")
    parent_step = models.BigIntegerField(null=True, blank=True)
    by_hand = models.BooleanField(default=False)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    steps = models.BigIntegerField(null=True, blank=True)  # the last step that it has reported
    pruned_at_step = models.BigIntegerField(null=True, blank=True)
    is_promoted = models.BooleanField(default=False)  # a person let it go on: it is not pruned again
    system_attributes = models.JSONField(default=dict, blank=True)  # the sampler's own

    objects = TrialQuerySet.as_manager()

    class Meta:
        ordering = ("sweep", "number")
        constraints = (models.UniqueConstraint(fields=("sweep", "number"), name="one_trial_per_number"),)
        indexes = (models.Index(fields=("sweep", "state", "value"), name="trial_by_state"),)

    def __str__(self) -> str:
        return f"trial {self.number} of {self.sweep_id}"

    @property
    def is_final(self) -> bool:
        return self.state in TRIAL_FINAL

    def run_ids(self) -> list[str]:
        """Return the ids of its runs, by seed."""
        others = self.further_runs.exclude(run=None).order_by("seed").values_list("run_id", flat=True)
        return [one for one in (self.run_id, *others) if one is not None]


class TrialRun(models.Model):
    """A further run of a trial, with another seed; that of seed 0 is the trial's own."""

    trial = models.ForeignKey(Trial, on_delete=models.CASCADE, related_name="further_runs")
    seed = models.PositiveIntegerField()
    run = models.OneToOneField(Run, on_delete=models.SET_NULL, null=True, blank=True, related_name="trial_seed")

    class Meta:
        constraints = (models.UniqueConstraint(fields=("trial", "seed"), name="one_run_per_seed"),)

    def __str__(self) -> str:
        return f"seed {self.seed} of {self.trial_id}"


class TrialReport(models.Model):
    """The value of the objective at a step. A step counts once, however often restarts train it again."""

    trial = models.ForeignKey(Trial, on_delete=models.CASCADE, related_name="reports")
    step = models.BigIntegerField()
    value = models.FloatField()

    class Meta:
        ordering = ("trial", "step")
        constraints = (models.UniqueConstraint(fields=("trial", "step"), name="one_report_per_step"),)

    def __str__(self) -> str:
        return f"{self.value:g} at step {self.step} of {self.trial_id}"
