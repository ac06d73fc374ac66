"""The trials of a sweep: parameters, the run that tries them, and what it reported."""

from django.db import models

from runs.models.runs import Run
from runs.models.sweeps.sweep import Sweep
from trainyard.contract.statuses import TRIAL_FINAL, TrialState


class TrialQuerySet(models.QuerySet["Trial"]):
    def live(self) -> "TrialQuerySet":
        return self.filter(state__in=(TrialState.WAITING, TrialState.RUNNING))


class Trial(models.Model):
    """One set of parameters. A WAITING one gets its run in the transaction that makes it RUNNING, so that no trial has
    two; further runs of the same parameters with other seeds are TrialRuns."""

    sweep = models.ForeignKey(Sweep, on_delete=models.CASCADE, related_name="trials")
    number = models.PositiveIntegerField()
    state = models.CharField(
        max_length=8, choices=[(one.value, one.value) for one in TrialState], default=TrialState.WAITING
    )
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
