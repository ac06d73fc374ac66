"""Credentials: API tokens, one-time sign-in links, links for guests, and keys that make a retried request safe."""

import hashlib

from django.db import models

from runs.models.base import Dated, Identified
from runs.models.people import Project, User


def digest_of(secret: str) -> str:
    """Return the SHA-256 of a secret, hex: what is stored in place of it (secrets here have 256 random bits)."""
    return hashlib.sha256(secret.encode()).hexdigest()


class Token(Identified):
    """An API token of a person or a service account. The secret is shown once; its digest is kept.

    It may do what its owner may, within its scopes (names of permissions) and projects (ids); None: all of them.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=80)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    scopes = models.JSONField(null=True, blank=True)
    project_ids = models.JSONField(null=True, blank=True)
    # The token that made it, with which it ends; None: a person did, in a session. Rows below have the same column.
    by_token = models.ForeignKey("self", on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    last_used_at = models.DateTimeField(null=True, blank=True)
    last_address = models.CharField(max_length=45, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return self.name


class SignInLink(Identified):
    """A one-time way in for a person without a password."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="sign_in_links")
    digest = models.CharField(max_length=64, unique=True, editable=False)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"sign-in link for {self.user}"


class SharedLink(Identified):
    """A link by which whoever has it reads one thing of a project, until it ends or is revoked: what its maker may
    share, and nothing once they may not. ``object``: ``run/ID``, ``sweep/ID``, ``compare?run=ID&run=ID``."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="shared_links")
    object = models.TextField()
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="shared_links")
    by_token = models.ForeignKey(Token, on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    num_opened = models.PositiveIntegerField(default=0)
    first_opened_at = models.DateTimeField(null=True, blank=True)
    last_opened_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return f"link to {self.object[:80]}"


class IdempotencyKey(Dated):
    """The answer to a POST that carried a key, so that the same request again gets the same answer."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)
    path = models.CharField(max_length=300)
    body_digest = models.CharField(max_length=64)
    status_code = models.PositiveSmallIntegerField(default=0)  # 0: the first request has not been answered yet
    answer = models.TextField(blank=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("user", "key"), name="one_answer_per_key"),)

    def __str__(self) -> str:
        return self.key
