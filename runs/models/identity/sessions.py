"""Signed-in browsers, and what an identity provider gave for them."""

from __future__ import annotations

from django.db import models

from runs.models.people import User
from runs.values.ids import new_id


class BrowserSession(models.Model):
    """A signed-in browser, beside Django's own row of the session: whose it is, where it is, when it was used."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="browser_sessions")
    session_key = models.CharField(max_length=40, unique=True, editable=False)
    method = models.CharField(max_length=40, blank=True)  # "password", "link", "invitation" or a provider
    address = models.CharField(max_length=45, blank=True)
    agent = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField()

    class Meta:
        ordering = ("-last_used_at",)

    def __str__(self) -> str:
        return f"session of {self.user}"


class ProviderSession(models.Model):
    """What an identity provider gave for a session. Control asks the provider with it whether the person may stay."""

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
