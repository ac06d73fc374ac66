"""The audit: who did what, in rows that nobody changes, each with the hash of the one before."""

import json
from typing import Any, NoReturn

from django.db import models

from trainyard.contract.base import JsonObject


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
