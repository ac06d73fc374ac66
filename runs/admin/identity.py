"""How people are known outside, and where they are signed in: looked at here, changed elsewhere."""

from __future__ import annotations

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from runs.actions.people.ways_in import end_rows
from runs.admin.base import Written
from runs.models import BrowserSession, Identity, ProvidedGroup, ProviderSession, ProvisioningToken

# allauth's own tables: the settings file names the providers, and keys of second factors are nobody's to see.
for model in (EmailAddress, SocialAccount, SocialApp, SocialToken, Authenticator):
    admin.site.unregister(model)


@admin.register(Identity)
class IdentityAdmin(Written):
    list_display = ("user", "provider", "subject", "external_id", "is_provisioned", "signed_in_at")
    list_filter = ("provider", "is_provisioned")
    list_select_related = ("user",)
    search_fields = ("user__username", "subject", "external_id", "username")


@admin.register(ProvidedGroup)
class ProvidedGroupAdmin(Written):
    list_display = ("name", "provider", "external_id", "is_provisioned", "created_at")
    list_filter = ("provider",)
    search_fields = ("name",)


@admin.register(BrowserSession)
class BrowserSessionAdmin(Written):
    actions = ("end",)
    list_display = ("user", "method", "address", "created_at", "last_used_at")
    list_select_related = ("user",)
    search_fields = ("user__username", "address")
    exclude = ("session_key",)

    @admin.action(description="Sign these browsers out", permissions=["administrator"])
    def end(self, request: HttpRequest, rows: QuerySet[BrowserSession]) -> None:
        found = list(rows)
        end_rows(found)
        self.message_user(request, f"Signed {len(found)} browsers out.", messages.SUCCESS)

    def has_administrator_permission(self, request: HttpRequest) -> bool:
        return bool(getattr(request.user, "is_superuser", False))


@admin.register(ProviderSession)
class ProviderSessionAdmin(Written):
    list_display = ("session", "provider", "confirmed_at", "check_at")
    list_select_related = ("session__user",)
    search_fields = ("session__user__username",)
    exclude = ("locked", "sid")


@admin.register(ProvisioningToken)
class ProvisioningTokenAdmin(Written):
    list_display = ("provider", "created_by", "created_at", "last_used_at", "last_address", "revoked_at")
    search_fields = ("provider",)
    exclude = ("digest",)
