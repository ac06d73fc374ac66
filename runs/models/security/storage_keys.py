"""Keys with which a project's files are encrypted where they lie. Each is wrapped, as data keys of secrets are."""

from __future__ import annotations

from django.db import models

from runs.models.people import Project


class StorageKey(models.Model):
    """One version. The newest encrypts what is written; older ones open what they encrypted."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="storage_keys")
    number = models.PositiveIntegerField()
    key_id = models.CharField(max_length=200)  # of the key-encryption key
    wrapped_key = models.TextField()  # empty: it was destroyed, and nothing that it encrypted opens again
    created_at = models.DateTimeField(auto_now_add=True)
    destroyed_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("number",)
        constraints = (models.UniqueConstraint(fields=("project", "number"), name="one_storage_key_per_number"),)

    def __str__(self) -> str:
        return f"storage key {self.number} of {self.project_id}"
