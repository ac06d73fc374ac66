"""Exports of what belongs to a person, people who were erased, and what people agreed to."""

from django.db import models

from runs.models.base import Identified
from runs.models.people import Project, User
from runs.models.runs import Run


class PersonalExport(Identified):
    """A ZIP with all that belongs to a person. Control makes it, the person alone may have it, for some days."""

    class State(models.TextChoices):
        WAITING = "waiting"
        READY = "ready"
        FAILED = "failed"  # problem says why

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="personal_exports")
    state = models.CharField(max_length=8, choices=State.choices, default=State.WAITING)
    problem = models.TextField(blank=True)
    size_bytes = models.PositiveBigIntegerField(default=0)
    num_rows = models.PositiveIntegerField(default=0)
    ready_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return f"export {self.id}, {self.state}"


class ErasedPerson(models.Model):
    """A tombstone: by number and digest, so that a person who comes back with an older copy of the database is known,
    and nobody else who has the number. It holds no name."""

    number = models.BigIntegerField(primary_key=True)  # the primary key that the person had
    digest = models.CharField(max_length=64)  # keyed, of the number and the moment at which the person was made
    runs = models.JSONField(default=list, blank=True)  # ids of the runs that were deleted with the person
    at = models.DateTimeField()

    class Meta:
        ordering = ("at",)
        verbose_name_plural = "erased people"

    def __str__(self) -> str:
        return self.pseudonym

    @property
    def pseudonym(self) -> str:
        return pseudonym_of(self.number)


def pseudonym_of(number: int) -> str:
    """Return what an erased person is called wherever their name stood."""
    return f"erased person {number}"


class Consent(models.Model):
    """A person agreed to a text, which the digest names. A text that changes is asked about again."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="consents")
    digest = models.CharField(max_length=64)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("user", "digest"), name="one_consent_per_text"),)

    def __str__(self) -> str:
        return f"{self.user} to {self.digest[:12]}"


# Measurements of a project's data, and what its retention removed.


class StoredData(models.Model):
    """Amount of one kind of a project's data at one place, as it was measured last."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="stored_data")
    kind = models.CharField(max_length=20)  # one of runs.privacy.storage.DataKind
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
    """Data of a run that its project's retention removed. One that is started again afterwards has data again."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="removed_data")
    kind = models.CharField(max_length=20)
    at = models.DateTimeField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=("run", "kind"), name="one_removal_per_run_and_kind"),)
        verbose_name_plural = "removed data"

    def __str__(self) -> str:
        return f"{self.kind} of {self.run_id}"
