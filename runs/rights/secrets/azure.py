"""Keys of Azure Key Vault, by its plain HTTP API: data keys go there to be wrapped with RSA and unwrapped.

Source: the REST reference of Key Vault (wrap key, unwrap key, rotate key) and the OAuth 2.0 client credentials grant.
"""

import base64
import hashlib
import hmac
import os
import time
from collections.abc import Callable
from typing import Any

import httpx

from runs.rights.secrets.key_stores import KeyProblem
from trainyard.rest.http_clients import outside_client, why_not

TIMEOUT = httpx.Timeout(5.0)
API, ALGORITHM = {"api-version": "7.4"}, "RSA-OAEP-256"
EARLIER_S = 60.0  # that a token is renewed before it ends
SIGN_IN, SCOPE = "https://login.microsoftonline.com", "https://vault.azure.net/.default"


class AzureKeys:
    """``address`` is that of the key: https://NAME.vault.azure.net/keys/KEY. RSA knows no context: the digest of the
    place is wrapped with the data key, and compared when it comes back."""

    def __init__(self, address: str, token: Callable[[], tuple[str, float]]) -> None:
        vault, _, name = address.rstrip("/").rpartition("/keys/")
        if not vault or not name or "/" in name:
            raise KeyProblem(f"{address} is no address of a key: https://NAME.vault.azure.net/keys/KEY.")
        self._key, self._ask, self._token, self._until = f"{vault}/keys/{name}", token, "", 0.0

    def wrap(self, data_key: bytes, place: str) -> tuple[str, str]:
        key_id = self.newest()
        return key_id, self._work("wrapkey", key_id, _text(data_key + _digest(place)))

    def unwrap(self, key_id: str, wrapped: str, place: str) -> bytes:
        text = self._work("unwrapkey", key_id, wrapped)
        found = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        if not hmac.compare_digest(found[-32:], _digest(place)):
            raise KeyProblem("Azure Key Vault unwrapped a key of another place.")
        return found[:-32]

    def newest(self) -> str:
        return f"azure:{self._call('GET', '')['key']['kid']}"

    def rotate(self) -> str:
        self._call("POST", "/rotate")
        return f"The key {self._key} has a new version."

    def forget_others(self) -> None:
        """Do nothing: the vault keeps old versions until its administrator disables them."""

    def _work(self, verb: str, key_id: str, value: str) -> str:
        version = key_id.rpartition("/")[2]
        if not version.isalnum():
            raise KeyProblem(f"{key_id!r:.80} names no version of a key of Azure Key Vault.")
        return str(self._call("POST", f"/{version}/{verb}", {"alg": ALGORITHM, "value": value})["value"])

    def _call(self, method: str, path: str, body: dict[str, str] | None = None) -> Any:
        if time.time() > self._until - EARLIER_S:
            self._token, self._until = self._ask()
        return asked(
            method, self._key + path, headers={"Authorization": f"Bearer {self._token}"}, params=API, json=body
        )


def token() -> tuple[str, float]:
    """Return a token of the application that the environment names, and until when it is valid."""
    names = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET")
    tenant, client, secret = (os.environ.get(name, "") for name in names)
    if not (tenant and client and secret):
        raise KeyProblem(f"Azure Key Vault needs {', '.join(names[:2])} and {names[2]}.")
    url = f"{os.environ.get('AZURE_AUTHORITY_HOST') or SIGN_IN}/{tenant}/oauth2/v2.0/token"
    form = {"grant_type": "client_credentials", "client_id": client, "client_secret": secret, "scope": SCOPE}
    found = asked("POST", url, data=form)
    return found["access_token"], time.time() + float(found["expires_in"])


def asked(method: str, url: str, **options: Any) -> dict[str, Any]:
    """Return the answer. Raises KeyProblem, which repeats nothing of what was sent."""
    try:
        with outside_client(timeout=TIMEOUT) as client:
            answer = client.request(method, url, **options)
        answer.raise_for_status()
        return dict(answer.json())
    except httpx.HTTPStatusError as error:
        raise KeyProblem(f"Azure answered {error.response.status_code} to {error.request.url.path}.") from error
    except (httpx.HTTPError, ValueError, TypeError) as error:
        raise KeyProblem(f"Azure Key Vault cannot be reached: {why_not(error)}.") from error


def _digest(place: str) -> bytes:
    return hashlib.sha256(place.encode()).digest()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
