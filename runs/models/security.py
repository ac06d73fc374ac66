"""The audit: who did what, in rows that nobody changes, each with the hash of the one before. And secrets of projects
and people: names and encrypted versions. No value is shown again."""

import json
from typing import Any, NoReturn

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q

from runs.models.attempts import Attempt
from runs.models.base import Dated, Identified
from runs.models.people import Project, User
from trainyard.contract.base import JsonObject
from trainyard.spec.values.references import NAME


class AppendOnly(RuntimeError):
    """Somebody tried to change or delete a row of the audit."""


class AuditQuerySet(models.QuerySet["AuditEntry"]):
    """Rows are added and removed by runs.rights.audit.chain alone."""

    def update(self, **_: Any) -> NoReturn:
        raise AppendOnly("rows of the audit are not changed")

    def delete(self) -> NoReturn:
        raise AppendOnly("rows of the audit are not deleted")

    def bulk_update(self, *_: Any, **__: Any) -> NoReturn:
        raise AppendOnly("rows of the audit are not changed")


class AuditEntry(models.Model):
    """One act. Names are kept as text, since a row outlives the people and things that it names.

    ``before`` and ``after`` are canonical JSON as text, so that the hash is of what is stored. A database trigger
    refuses changes and deletions too: see the first migration.
    """

    sequence = models.BigIntegerField(primary_key=True)  # from 1, without gaps
    at = models.DateTimeField()
    actor = models.CharField(max_length=200, blank=True)  # empty: nobody was signed in
    actor_number = models.BigIntegerField(null=True)  # the person's primary key
    token = models.CharField(max_length=120, blank=True)  # id and name; empty: a session, or none
    address = models.CharField(max_length=64, blank=True)
    action = models.CharField(max_length=120)
    object = models.CharField(max_length=200, blank=True)
    project = models.CharField(max_length=80, blank=True)  # its name
    before = models.TextField(blank=True)
    after = models.TextField(blank=True)
    result = models.CharField(max_length=200)
    repeats = models.PositiveIntegerField(default=1)  # tries that were alike, of those that were refused
    previous_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)

    objects = AuditQuerySet.as_manager()

    class Meta:
        base_manager_name = "objects"
        ordering = ("-sequence",)
        indexes = (
            models.Index(fields=("at",), name="audit_by_time"),
            models.Index(fields=("actor", "sequence"), name="audit_by_actor"),
            models.Index(fields=("project", "sequence"), name="audit_by_project"),
            models.Index(fields=("object", "sequence"), name="audit_by_object"),
        )

    def __str__(self) -> str:
        return f"{self.sequence}: {self.actor or 'nobody'} {self.action} {self.object}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise AppendOnly(f"row {self.sequence} of the audit is not changed")
        super().save(*args, **{**kwargs, "force_insert": True})

    def delete(self, *_: Any, **__: Any) -> NoReturn:
        raise AppendOnly(f"row {self.sequence} of the audit is not deleted")

    @property
    def values_before(self) -> JsonObject | None:
        return json.loads(self.before) if self.before else None

    @property
    def values_after(self) -> JsonObject | None:
        return json.loads(self.after) if self.after else None


class AuditHead(models.Model):
    """The end of the chain, and the cut behind which older rows were removed. Whoever adds a row locks this one."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    sequence = models.BigIntegerField(default=0)
    hash = models.CharField(max_length=64, blank=True)
    cut_sequence = models.BigIntegerField(default=0)  # the last row that was removed
    cut_hash = models.CharField(max_length=64, blank=True)
    sent_sequence = models.BigIntegerField(null=True)  # the last row that the collector of OTLP took
    seal = models.CharField(max_length=64, blank=True)  # of the first four, with the server's secret

    is_forged = False  # no column: runs.rights.audit.chain says of a head that it read that its seal does not fit

    def __str__(self) -> str:
        return f"audit up to {self.sequence}"


# Secrets of projects and people.


class Secret(Identified):
    """A name in a project, or of a person. Its value is in its versions; the newest counts."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, null=True, related_name="secrets")
    person = models.ForeignKey(User, on_delete=models.CASCADE, null=True, related_name="secrets")
    name = models.CharField(max_length=100)
    version = models.PositiveIntegerField(default=0)  # the newest
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    changed_at = models.DateTimeField(auto_now_add=True)
    used_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("name",)
        constraints = (
            models.UniqueConstraint(fields=("project", "name"), name="one_secret_per_project_and_name"),
            models.UniqueConstraint(fields=("person", "name"), name="one_secret_per_person_and_name"),
            models.CheckConstraint(
                condition=Q(project__isnull=True, person__isnull=False) | Q(project__isnull=False, person__isnull=True),
                name="secret_of_a_project_or_a_person",
            ),
        )

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        super().clean()
        if not NAME.fullmatch(self.name):
            raise ValidationError({"name": "A name is letters, digits and _, and begins with no digit."})

    @property
    def owner(self) -> str:
        """The project or person that it belongs to, as its encryption is bound to it."""
        return f"project:{self.project_id}" if self.project_id else f"person:{self.person_id}"


class SecretVersion(Dated):
    """One value: encrypted with a data key of its own, which a key-encryption key wraps."""

    secret = models.ForeignKey(Secret, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    key_id = models.CharField(max_length=200)  # of the key-encryption key
    wrapped_key = models.TextField()  # base64, or what the KMS calls it
    ciphertext = models.TextField()  # base64 of nonce and AES-256-GCM
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")

    class Meta:
        ordering = ("-number",)
        constraints = (models.UniqueConstraint(fields=("secret", "number"), name="one_value_per_secret_and_number"),)

    def __str__(self) -> str:
        return f"version {self.number} of {self.secret_id}"


class SecretUse(models.Model):
    """A use of a secret: its version, the attempt, and the node. It outlives the secret."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="secret_uses")
    secret = models.ForeignKey(Secret, on_delete=models.SET_NULL, null=True, related_name="uses")
    name = models.CharField(max_length=100)
    version = models.PositiveIntegerField()
    is_personal = models.BooleanField(default=False)
    node = models.CharField(max_length=120)  # its name
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("name", "at")
        constraints = (
            models.UniqueConstraint(
                fields=("attempt", "name", "version", "is_personal", "node"), name="one_use_per_attempt_and_node"
            ),
        )

    def __str__(self) -> str:
        return f"{self.name} version {self.version} in {self.attempt_id}"


class StorageKey(Dated):
    """One version. The newest encrypts what is written; older ones open what they encrypted."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="storage_keys")
    number = models.PositiveIntegerField()
    key_id = models.CharField(max_length=200)  # of the key-encryption key
    wrapped_key = models.TextField()  # empty: it was destroyed, and nothing that it encrypted opens again
    destroyed_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("number",)
        constraints = (models.UniqueConstraint(fields=("project", "number"), name="one_storage_key_per_number"),)

    def __str__(self) -> str:
        return f"storage key {self.number} of {self.project_id}"
