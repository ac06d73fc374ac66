"""What can be launched: saved specs and the code they ship."""

from __future__ import annotations

from django.db import models

from runs.ids import new_id
from runs.models.people import Project, User


class JobQuerySet(models.QuerySet["Job"]):
    def newest(self) -> JobQuerySet:
        """The last version of each."""
        others = Job.objects.filter(project=models.OuterRef("project"), name=models.OuterRef("name"))
        return self.filter(version=models.Subquery(others.order_by("-version").values("version")[:1]))


class Job(models.Model):
    """A saved, named spec. Saving it again under the same name makes the next version; old versions stay."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="jobs")
    name = models.CharField(max_length=120)
    version = models.PositiveIntegerField(default=1)
    spec = models.JSONField()
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = JobQuerySet.as_manager()

    class Meta:
        ordering = ("name", "-version")
        constraints = (models.UniqueConstraint(fields=("project", "name", "version"), name="one_version_per_job"),)

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"


class CodeBundle(models.Model):
    """A packed folder of a user's code, named by the SHA-256 of its bytes and stored under the home."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="bundles")
    sha256 = models.CharField(max_length=64)
    size_bytes = models.PositiveIntegerField()
    files = models.JSONField(default=list)  # the paths inside it, so that a script can be checked without unpacking
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("project", "sha256"), name="one_bundle_per_digest"),)

    def __str__(self) -> str:
        return self.sha256[:12]
