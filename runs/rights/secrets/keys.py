"""Key store of this server, by its settings: a file of its own, the transit engine of Vault or OpenBao, AWS KMS
or Azure Key Vault."""

import base64
import hashlib
import hmac
import json
import os
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import httpx
from django.conf import settings

from runs.rights.secrets.key_stores import EnvironmentKeys, FileKeys, KeyProblem, KeyStore
from trainyard.rest.http_clients import outside_client, why_not

FILE = "secrets.key"


def key_store() -> KeyStore:
    """Return the key store of now. Raises KeyProblem for settings that name none."""
    return _store(settings.SECRETS_KMS, settings.SECRETS_KEY, str(settings.HOME / FILE))


@cache
def _store(kms: str, keys: str, path: str) -> KeyStore:
    if kms.startswith("transit:"):
        return TransitKeys(kms.removeprefix("transit:"), _vault_token, os.environ.get("VAULT_NAMESPACE", ""))
    if kms.startswith("aws:"):
        return _aws(kms.removeprefix("aws:"))
    if kms.startswith("azure:"):
        return AzureKeys(kms.removeprefix("azure:"), azure_token)
    if kms:
        raise KeyProblem("TRAINYARD_SECRETS_KMS must begin with transit:, aws: or azure:.")
    return EnvironmentKeys(keys) if keys else FileKeys(Path(path))


def _vault_token() -> str:
    """Read each time: an agent beside the server renews the file."""
    if path := os.environ.get("VAULT_TOKEN_FILE"):
        try:
            return Path(path).read_text().strip()
        except OSError as error:
            raise KeyProblem(f"VAULT_TOKEN_FILE cannot be read: {error.strerror}.") from error
    token = os.environ.get("VAULT_TOKEN", "")
    if not token:
        raise KeyProblem("The transit engine needs VAULT_TOKEN_FILE or VAULT_TOKEN.")
    return token


def _aws(text: str) -> KeyStore:
    """``KEY?region=eu-central-1&endpoint=http://…``; the region may be AWS_REGION's."""
    key, _, query = text.partition("?")
    given = {name: values[0] for name, values in parse_qs(query).items()}
    region = given.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION", "")
    if not key or not region:
        raise KeyProblem("TRAINYARD_SECRETS_KMS must name a key and a region: aws:KEY?region=eu-central-1.")
    endpoint = given.get("endpoint", "")
    if endpoint and urlsplit(endpoint).scheme not in ("http", "https"):
        raise KeyProblem("The endpoint of TRAINYARD_SECRETS_KMS must be an http or https URL.")
    return AwsKeys(key, region, _aws_credentials, endpoint)


def _aws_credentials() -> "Credentials":
    key_id, secret = os.environ.get("AWS_ACCESS_KEY_ID", ""), os.environ.get("AWS_SECRET_ACCESS_KEY", "")
    if not key_id or not secret:
        raise KeyProblem("AWS KMS needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.")
    return Credentials(key_id, secret, os.environ.get("AWS_SESSION_TOKEN", ""))


# Keys of Vault's or OpenBao's transit engine: data keys go there to be wrapped and unwrapped, the key never leaves.

TIMEOUT = httpx.Timeout(5.0)
VERSION = re.compile(r"vault:v(\d+):")


class TransitKeys:
    """``address`` is that of the key: https://vault.example:8200/v1/transit/keys/trainyard."""

    def __init__(self, address: str, token: Callable[[], str], namespace: str = "") -> None:
        self._engine, _, self._name = address.rstrip("/").rpartition("/keys/")
        if not self._engine or not self._name:
            raise KeyProblem(f"{address} is no address of a transit key: …/v1/transit/keys/NAME.")
        self._token, self._namespace = token, namespace

    def wrap(self, data_key: bytes, place: str) -> tuple[str, str]:
        answer = self._post("encrypt", {"plaintext": _text(data_key), "associated_data": _text(place.encode())})
        return self._id(answer["ciphertext"]), answer["ciphertext"]

    def unwrap(self, key_id: str, wrapped: str, place: str) -> bytes:
        answer = self._post("decrypt", {"ciphertext": wrapped, "associated_data": _text(place.encode())})
        return base64.b64decode(answer["plaintext"])

    def newest(self) -> str:
        found = self._call("GET", f"keys/{self._name}", None)
        return f"transit:{self._name}:v{found.get('latest_version', '')}"

    def rotate(self) -> str:
        self._call("POST", f"keys/{self._name}/rotate", {})
        return f"The transit key {self._name} has a new version."

    def forget_others(self) -> None:
        """Do nothing: the service keeps old versions until its administrator raises min_decryption_version."""

    def _id(self, ciphertext: str) -> str:
        found = VERSION.match(ciphertext)
        return f"transit:{self._name}:v{found[1] if found else ''}"

    def _post(self, verb: str, body: dict[str, str]) -> dict[str, str]:
        return self._call("POST", f"{verb}/{self._name}", body)

    def _call(self, method: str, path: str, body: dict[str, str] | None) -> dict[str, str]:
        headers = {"X-Vault-Token": self._token(), "X-Vault-Request": "true"}
        if self._namespace:
            headers["X-Vault-Namespace"] = self._namespace
        address = f"{self._engine}/{path}"
        data = _asked("The transit engine", path, method, address, headers=headers, json=body).get("data")
        return data if isinstance(data, dict) else {}


def _asked(service: str, what: str, method: str, url: str, **options: Any) -> dict[str, Any]:
    """Return the answer. Raises KeyProblem."""
    try:
        with outside_client(timeout=TIMEOUT) as client:
            answer = client.request(method, url, **options)
        answer.raise_for_status()
        return dict(answer.json()) if answer.content else {}
    except httpx.HTTPStatusError as error:  # its text would quote the address; the body may quote what was sent
        raise KeyProblem(f"{service} answered {error.response.status_code} to {what}.") from error
    except (httpx.HTTPError, ValueError, TypeError) as error:
        raise KeyProblem(f"{service} cannot be reached: {why_not(error)}.") from error


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


# Keys of AWS KMS, by its plain HTTP API: each request is signed as AWS Signature Version 4 says.

SERVICE = "kms"
TYPE = "application/x-amz-json-1.1"


class Credentials(NamedTuple):
    key_id: str
    secret: str
    session: str = ""


class AwsKeys:
    """``key`` is the key's id, ARN or alias; the context binds what is wrapped to its place."""

    def __init__(self, key: str, region: str, credentials: Callable[[], Credentials], endpoint: str = "") -> None:
        self._key, self._region, self._credentials = key, region, credentials
        self._endpoint = (endpoint or f"https://kms.{region}.amazonaws.com").rstrip("/")

    def wrap(self, data_key: bytes, place: str) -> tuple[str, str]:
        body: dict[str, object] = {"KeyId": self._key, "Plaintext": _text(data_key), "EncryptionContext": _bound(place)}
        answer = self._call("Encrypt", body)
        return f"aws:{answer.get('KeyId', self._key)}", answer["CiphertextBlob"]

    def unwrap(self, key_id: str, wrapped: str, place: str) -> bytes:
        answer = self._call("Decrypt", {"CiphertextBlob": wrapped, "EncryptionContext": _bound(place)})
        return base64.b64decode(answer["Plaintext"])

    def newest(self) -> str:
        return ""  # KMS rotates behind the same id

    def rotate(self) -> str:
        self._call("RotateKeyOnDemand", {"KeyId": self._key})
        return f"KMS rotates the key {self._key}."

    def forget_others(self) -> None:
        """Do nothing: KMS keeps what it rotated."""

    def _call(self, operation: str, body: dict[str, object]) -> dict[str, str]:
        content = json.dumps(body).encode()
        headers = {"content-type": TYPE, "x-amz-target": f"TrentService.{operation}"}
        signed = sign(
            "POST", self._endpoint, headers, content,
            region=self._region, service=SERVICE, credentials=self._credentials(), now=datetime.now(UTC),
        )  # fmt: skip
        return _asked("AWS KMS", operation, "POST", f"{self._endpoint}/", headers=signed, content=content)


def _bound(place: str) -> dict[str, str]:
    return {"trainyard": place}


def sign(
    method: str,
    url: str,
    headers: dict[str, str],
    content: bytes,
    *,
    region: str,
    service: str,
    credentials: Credentials,
    now: datetime,
) -> dict[str, str]:
    """Return the headers with those of the signature. The URL's query is part of it."""
    parts, at = urlsplit(url), now.strftime("%Y%m%dT%H%M%SZ")
    known = {**headers, "host": parts.netloc, "x-amz-date": at}
    if credentials.session:
        known["x-amz-security-token"] = credentials.session
    lowered = {name.lower(): " ".join(value.split()) for name, value in known.items()}
    names = ";".join(sorted(lowered))
    lines = "".join(f"{name}:{lowered[name]}\n" for name in sorted(lowered))
    digest = hashlib.sha256(content).hexdigest()
    request = "\n".join([method, parts.path or "/", parts.query, lines, names, digest])
    scope = f"{at[:8]}/{region}/{service}/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", at, scope, hashlib.sha256(request.encode()).hexdigest()])
    signature = hmac.new(signing_key(credentials.secret, at[:8], region, service), text.encode(), "sha256").hexdigest()
    words = f"AWS4-HMAC-SHA256 Credential={credentials.key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    return {**known, "authorization": words}


def signing_key(secret: str, day: str, region: str, service: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key


# Keys of Azure Key Vault, by its plain HTTP API: data keys go there to be wrapped with RSA and unwrapped. Source: the
# REST reference of Key Vault (wrap key, unwrap key, rotate key) and the OAuth 2.0 client credentials grant.

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
        key_id, value = self.newest(), base64.urlsafe_b64encode(data_key + _digest(place))
        return key_id, self._work("wrapkey", key_id, value.decode().rstrip("="))

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
        headers = {"Authorization": f"Bearer {self._token}"}
        return _asked_azure(method, self._key + path, headers=headers, params=API, json=body)


def azure_token() -> tuple[str, float]:
    """Return a token of the application that the environment names, and until when it is valid."""
    names = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET")
    tenant, client, secret = (os.environ.get(name, "") for name in names)
    if not (tenant and client and secret):
        raise KeyProblem(f"Azure Key Vault needs {', '.join(names[:2])} and {names[2]}.")
    url = f"{os.environ.get('AZURE_AUTHORITY_HOST') or SIGN_IN}/{tenant}/oauth2/v2.0/token"
    form = {"grant_type": "client_credentials", "client_id": client, "client_secret": secret, "scope": SCOPE}
    found = _asked_azure("POST", url, data=form)
    return found["access_token"], time.time() + float(found["expires_in"])


def _asked_azure(method: str, url: str, **options: Any) -> dict[str, Any]:
    return _asked("Azure", urlsplit(url).path, method, url, **options)


def _digest(place: str) -> bytes:
    return hashlib.sha256(place.encode()).digest()
