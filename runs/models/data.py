"""Data that a project trains on, by name: where it lies and what a node found in it."""

from django.db import models

from runs.models.base import Identified
from runs.models.clusters import Cluster, Node
from runs.models.people import Project, User


class Dataset(Identified):
    """Files of one source at one place. A node looks into them: the server itself opens nothing of a user's."""

    class State(models.TextChoices):
        WAITING = "waiting"  # no node has been asked yet
        CHECKING = "checking"
        READY = "ready"
        FAILED = "failed"  # problem says why

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="datasets")
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="datasets")  # whose nodes can read it
    name = models.SlugField(max_length=60)
    source = models.CharField(max_length=20)  # of trainyard.spec.sections.data.LOCATED
    location = models.CharField(max_length=2_000)
    options = models.JSONField(default=dict, blank=True)  # other fields of task.data: target, text_field, image_size
    state = models.CharField(max_length=12, choices=State.choices, default=State.WAITING)
    problem = models.TextField(blank=True)
    # What the node found: see workers.training.data.inspection.inspect.
    facts = models.JSONField(default=dict, blank=True)
    size_bytes = models.PositiveBigIntegerField(null=True, blank=True)
    digest = models.CharField(max_length=64, blank=True)
    checked_by = models.ForeignKey(Node, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    asked_at = models.DateTimeField(null=True, blank=True)
    checked_at = models.DateTimeField(null=True, blank=True)
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")

    class Meta:
        ordering = ("name",)
        constraints = (models.UniqueConstraint(fields=("project", "name"), name="one_dataset_per_name"),)

    def __str__(self) -> str:
        return self.name

    @property
    def question(self) -> str:
        """The id of one inspection: an answer to an older one changes nothing."""
        return f"{self.pk}@{int(self.asked_at.timestamp() * 1_000_000) if self.asked_at else 0}"

    @property
    def is_open(self) -> bool:
        """Return whether its inspection is not done yet."""
        return self.state in (self.State.WAITING, self.State.CHECKING)

    def fields(self) -> dict[str, str | int]:
        """Return what it says of ``task.data`` in a spec."""
        return {**self.options, "source": self.source, "location": self.location, "digest": self.digest}
