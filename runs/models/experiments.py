"""Experiments that MLflow's clients make: names for groups of runs in a project."""

from django.db import models

from runs.models.people import Project
from runs.values.ids import new_id


class Experiment(models.Model):
    """Its runs are those of the project whose group has its name."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="experiments")
    name = models.CharField(max_length=500)
    tags = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now=True)
    archived_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("name",)
        constraints = (models.UniqueConstraint(fields=("project", "name"), name="one_experiment_per_name"),)

    def __str__(self) -> str:
        return self.name
