"""What a run waits for beside room, beside its spec: a long queue is placed without reading every spec."""

from django.db import models

from runs.models.runs import Run


class StartTerms(models.Model):
    """Times of a run, and its place in an array. A row for each run that has any."""

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
