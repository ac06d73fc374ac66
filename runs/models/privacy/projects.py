"""What was measured of a project's data, and what its retention removed."""

from __future__ import annotations

from django.db import models

from runs.models.people import Project
from runs.models.runs import Run


class StoredData(models.Model):
    """How much of one kind of a project's data lies at one place, as it was measured last."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="stored_data")
    kind = models.CharField(max_length=20)  # one of runs.privacy.kinds.Kind
    place = models.CharField(max_length=300)
    region = models.CharField(max_length=60, blank=True)  # empty: not known
    bytes = models.PositiveBigIntegerField(default=0)
    number = models.PositiveBigIntegerField(default=0)  # of files or rows
    measured_at = models.DateTimeField()

    class Meta:
        ordering = ("kind", "place")
        constraints = (
            models.UniqueConstraint(fields=("project", "kind", "place"), name="one_measure_per_kind_and_place"),
        )
        verbose_name_plural = "stored data"

    def __str__(self) -> str:
        return f"{self.kind} of {self.project_id} at {self.place}"


class RemovedData(models.Model):
    """What the retention of its project removed of a run. One that is started again afterwards has data again."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="removed_data")
    kind = models.CharField(max_length=20)
    at = models.DateTimeField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=("run", "kind"), name="one_removal_per_run_and_kind"),)
        verbose_name_plural = "removed data"

    def __str__(self) -> str:
        return f"{self.kind} of {self.run_id}"
