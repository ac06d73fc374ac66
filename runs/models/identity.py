"""Identities of people at identity providers, and for programs that provision people by SCIM."""

from django.contrib.auth.models import Group
from django.db import models
from django.db.models import Q

from runs.models.base import Dated, Identified
from runs.models.people import User


class Identity(Dated):
    """A person at an identity provider: known there by a subject (OpenID Connect), an external id (SCIM), or both."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="identities")
    provider = models.CharField(max_length=40)
    subject = models.CharField(max_length=255, blank=True)  # "" until the first sign-in
    external_id = models.CharField(max_length=255, blank=True)
    username = models.CharField(max_length=150, blank=True)  # as SCIM calls the person
    is_provisioned = models.BooleanField(default=False)  # by SCIM, which may change and disable the person
    # The provider made the person, or was trusted with an account that was here: they come in through it alone.
    keeps_person = models.BooleanField(default=False)
    is_disabled_by_provider = models.BooleanField(default=False)  # so that it may enable the person again
    signed_in_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("provider", "subject"), condition=~Q(subject=""), name="one_identity_per_subject"
            ),
            models.UniqueConstraint(
                fields=("provider", "username"), condition=~Q(username=""), name="one_identity_per_username"
            ),
            models.UniqueConstraint(fields=("provider", "user"), name="one_identity_per_provider"),
        )

    def __str__(self) -> str:
        return f"{self.user} at {self.provider}"


class ProvidedGroup(Dated):
    """A group of people that an identity provider keeps: by a claim at each sign-in, or by SCIM."""

    group = models.OneToOneField(Group, on_delete=models.CASCADE, primary_key=True, related_name="provided")
    provider = models.CharField(max_length=40)
    name = models.CharField(max_length=100)  # as the provider calls it
    external_id = models.CharField(max_length=255, blank=True)
    is_provisioned = models.BooleanField(default=False)  # by SCIM, which then says alone who is in it

    class Meta:
        constraints = (models.UniqueConstraint(fields=("provider", "name"), name="one_group_per_provider_and_name"),)

    def __str__(self) -> str:
        return f"{self.name} of {self.provider}"


class ProvisioningToken(Identified):
    """A token of a provider's SCIM client. It opens ``/scim/v2/`` and nothing else; its digest is kept."""

    provider = models.CharField(max_length=40)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    last_used_at = models.DateTimeField(null=True, blank=True)
    last_address = models.CharField(max_length=45, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return f"SCIM token of {self.provider}"


# Signed-in browsers, and what an identity provider gave for them.


class BrowserSession(Identified):
    """A signed-in browser, beside Django's own row of the session: whose it is, where it is, when it was used."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="browser_sessions")
    session_key = models.CharField(max_length=40, unique=True, editable=False)
    method = models.CharField(max_length=40, blank=True)  # "password", "link", "invitation" or a provider
    address = models.CharField(max_length=45, blank=True)
    agent = models.CharField(max_length=300, blank=True)
    last_used_at = models.DateTimeField()

    class Meta:
        ordering = ("-last_used_at",)

    def __str__(self) -> str:
        return f"session of {self.user}"


class ProviderSession(models.Model):
    """Tokens of an identity provider for a session. Control asks the provider with them whether the person may stay."""

    session = models.OneToOneField(
        BrowserSession, on_delete=models.CASCADE, primary_key=True, related_name="provider_session"
    )
    provider = models.CharField(max_length=40)
    subject = models.CharField(max_length=255)
    sid = models.CharField(max_length=255, blank=True)  # the session at the provider, for back-channel logout
    locked = models.TextField(blank=True, editable=False)  # its tokens, which only this server opens
    confirmed_at = models.DateTimeField()
    check_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"session at {self.provider}"
