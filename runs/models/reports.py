"""Reports: texts about runs, in versions that are never changed, with comments."""

from django.core.validators import MaxLengthValidator
from django.db import models

from runs.models.base import Identified
from runs.models.people import Project, User

MAX_BODY, MAX_COMMENT = 100_000, 10_000  # characters


class Report(Identified):
    """A text of a project. ``title`` and ``version`` are those of its newest version."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="reports")
    title = models.CharField(max_length=200)
    version = models.PositiveIntegerField(default=1)
    is_archived = models.BooleanField(default=False)
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    changed_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.title


class ReportVersion(models.Model):
    """A report as somebody saved it. ``pinned`` is what its blocks showed then, by their text; None: they are live."""

    report = models.ForeignKey(Report, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField(default=1)
    title = models.CharField(max_length=200)
    body = models.TextField(blank=True, validators=[MaxLengthValidator(MAX_BODY)])
    pinned = models.JSONField(null=True, blank=True)
    author = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("report", "number"), name="one_version_of_a_number"),)

    def __str__(self) -> str:
        return f"{self.title} v{self.number}"


class ReportComment(models.Model):
    report = models.ForeignKey(Report, on_delete=models.CASCADE, related_name="comments")
    number = models.PositiveIntegerField()  # of the version that was the newest
    text = models.TextField(validators=[MaxLengthValidator(MAX_COMMENT)])
    author = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"comment {self.pk} on {self.report}"
