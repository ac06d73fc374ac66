"""Identities of people outside: at identity providers, in browsers, and to programs that provision them."""

from runs.models.identity.providers import BrowserSession, Identity, ProvidedGroup, ProviderSession, ProvisioningToken

__all__ = ["BrowserSession", "Identity", "ProvidedGroup", "ProviderSession", "ProvisioningToken"]
