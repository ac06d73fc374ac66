"""How people are known outside: at identity providers, in browsers, and to programs that provision them."""

from runs.models.identity.providers import Identity, ProvidedGroup, ProvisioningToken
from runs.models.identity.sessions import BrowserSession, ProviderSession

__all__ = ["BrowserSession", "Identity", "ProvidedGroup", "ProviderSession", "ProvisioningToken"]
