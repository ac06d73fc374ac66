"""Answers to allauth: which providers there are, and what becomes of a person whom one of them sends."""

from typing import Any

import structlog
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialApp, SocialLogin
from django.conf import settings
from django.http import HttpRequest

from dashboard.pages.account import provider as pages
from runs.people.identity.providers import Provider
from runs.people.identity.second_factor import read_seed

log = structlog.get_logger(__name__)

KIND = "openid_connect"  # allauth's name for all of our providers


class ProviderAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]  # allauth has no types
    """Providers come from the settings file alone; people are found by our rules, not by allauth's."""

    def list_apps(self, request: HttpRequest, provider: str | None = None, client_id: str | None = None) -> list[Any]:
        known = [one for one in settings.SIGN_IN.providers if one.protocol == "openid-connect"]
        return [_app(one) for one in known if provider in (None, KIND, one.id) and client_id in (None, one.client_id)]

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """The provider's answer is genuine: from here on this site decides."""
        raise ImmediateHttpResponse(pages.arrive(request, sociallogin))

    def on_authentication_error(
        self, request: HttpRequest, provider: Any, error: Any = None, exception: Any = None, extra_context: Any = None
    ) -> None:
        log.warning("sign_in.provider_failed", provider=provider.app.provider_id, error=type(exception).__name__)
        raise ImmediateHttpResponse(pages.failed(request, provider.app.name, is_cancelled=str(error) == "cancelled"))


class FactorAdapter(DefaultMFAAdapter):  # type: ignore[misc]  # allauth has no types
    """Seeds of second factors are in envelopes at rest. They are written by ``factors``, which knows whose they are."""

    def encrypt(self, text: str) -> str:
        raise NotImplementedError("A seed is stored by dashboard.pages.account.factors.")

    def decrypt(self, encrypted_text: str) -> str:
        return read_seed(encrypted_text)

    def _get_site_name(self) -> str:
        return "Trainyard"


def _app(provider: Provider) -> Any:
    return SocialApp(
        provider=KIND,
        provider_id=provider.id,
        name=provider.name,
        client_id=provider.client_id,
        secret=provider.secret(),
        settings={
            "server_url": provider.issuer.rstrip("/"),
            "scope": list(provider.scopes),
            "oauth_pkce_enabled": True,
            "fetch_userinfo": True,
        },
    )
