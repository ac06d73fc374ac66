"""Keys of AWS KMS, by its plain HTTP API: each request is signed as AWS Signature Version 4 says."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx

from runs.rights.secrets.key_stores import KeyProblem
from trainyard.rest.http_clients import outside_client, why_not

TIMEOUT = httpx.Timeout(5.0)
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
        body: dict[str, object] = {
            "KeyId": self._key,
            "Plaintext": base64.b64encode(data_key).decode(),
            "EncryptionContext": _bound(place),
        }
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
        """Nothing: KMS keeps what it rotated."""

    def _call(self, operation: str, body: dict[str, object]) -> dict[str, str]:
        content = json.dumps(body).encode()
        headers = {"content-type": TYPE, "x-amz-target": f"TrentService.{operation}"}
        signed = sign(
            "POST", self._endpoint, headers, content,
            region=self._region, service=SERVICE, credentials=self._credentials(), now=datetime.now(UTC),
        )  # fmt: skip
        try:
            with outside_client(timeout=TIMEOUT) as client:
                answer = client.post(f"{self._endpoint}/", headers=signed, content=content)
            answer.raise_for_status()
            found = answer.json() if answer.content else {}
        except httpx.HTTPStatusError as error:
            raise KeyProblem(f"AWS KMS answered {error.response.status_code} to {operation}.") from error
        except (httpx.HTTPError, ValueError) as error:
            raise KeyProblem(f"AWS KMS cannot be reached: {why_not(error)}.") from error
        return found if isinstance(found, dict) else {}


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
    lines = [f"{name}:{lowered[name]}\n" for name in sorted(lowered)]
    request = "\n".join(
        [method, parts.path or "/", parts.query, "".join(lines), names, hashlib.sha256(content).hexdigest()]
    )
    scope = f"{at[:8]}/{region}/{service}/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", at, scope, hashlib.sha256(request.encode()).hexdigest()])
    signature = hmac.new(signing_key(credentials.secret, at[:8], region, service), text.encode(), "sha256").hexdigest()
    known["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={credentials.key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return known


def signing_key(secret: str, day: str, region: str, service: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key
