"""Key management services: Vault's transit engine over real HTTP, the signature of AWS, and
Azure Key Vault."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from runs.rights.secrets.key_stores import KeyProblem
from runs.rights.secrets.keys import AwsKeys, AzureKeys, Credentials, TransitKeys, azure_token, sign, signing_key


class Service(BaseHTTPRequestHandler):
    """Transit and KMS in one: it keeps what was wrapped, and unwraps it for the same place alone."""

    kept: ClassVar[dict[str, tuple[str, Any]]] = {}
    version = 1
    seen: ClassVar[list[tuple[str, dict[str, str]]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or b"{}")
        self.seen.append((self.path, dict(self.headers)))
        target = self.headers.get("X-Amz-Target", "")
        if self.headers.get("X-Vault-Token", "right") != "right":
            return self._answer(403, {"errors": [json.dumps(body)]})
        if self.path.endswith("/rotate") or target.endswith("RotateKeyOnDemand"):
            type(self).version += 1
            return self._answer(200, {})
        if "/encrypt/" in self.path or target.endswith("Encrypt"):
            name = f"vault:v{self.version}:{len(self.kept)}"
            bound = body.get("associated_data") or body.get("EncryptionContext")
            self.kept[name] = (body.get("plaintext") or body["Plaintext"], bound)
            return self._answer(200, {"data": {"ciphertext": name}, "CiphertextBlob": name, "KeyId": "arn:key"})
        name = body.get("ciphertext") or body["CiphertextBlob"]
        plain, bound = self.kept[name]
        if bound != (body.get("associated_data") or body.get("EncryptionContext")):
            return self._answer(400, {"errors": ["it does not open"]})
        return self._answer(200, {"data": {"plaintext": plain}, "Plaintext": plain})

    def do_GET(self) -> None:
        self._answer(200, {"data": {"latest_version": self.version}})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(kind: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), kind)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def address() -> Iterator[str]:
    with served(Service) as place:
        yield place


def test_transit_wraps_for_one_place_and_rotates(address: str) -> None:
    keys = TransitKeys(f"{address}/v1/transit/keys/trainyard", lambda: "right")
    key_id, wrapped = keys.wrap(b"k" * 32, "place")
    assert keys.newest() == key_id
    assert keys.unwrap(key_id, wrapped, "place") == b"k" * 32
    with pytest.raises(KeyProblem, match="400"):
        keys.unwrap(key_id, wrapped, "elsewhere")
    keys.rotate()
    assert keys.newest() != key_id and keys.unwrap(key_id, wrapped, "place") == b"k" * 32


def test_what_the_service_says_to_a_wrong_token_is_not_repeated(address: str) -> None:
    keys = TransitKeys(f"{address}/v1/transit/keys/trainyard", lambda: "wrong")
    with pytest.raises(KeyProblem) as refused:
        keys.wrap(b"k" * 32, "place")
    assert "403" in str(refused.value) and base64.b64encode(b"k" * 32).decode() not in str(refused.value)
    with pytest.raises(KeyProblem, match="cannot be reached"):
        TransitKeys("http://127.0.0.1:9/v1/transit/keys/trainyard", lambda: "right").newest()


def test_kms_wraps_for_one_place_and_signs(address: str) -> None:
    keys = AwsKeys("alias/trainyard", "eu-central-1", lambda: Credentials("AKIDEXAMPLE", "secret"), address)
    key_id, wrapped = keys.wrap(b"k" * 32, "place")
    assert key_id == "aws:arn:key" and keys.unwrap(key_id, wrapped, "place") == b"k" * 32
    with pytest.raises(KeyProblem, match="400"):
        keys.unwrap(key_id, wrapped, "elsewhere")
    headers = {name.lower(): value for name, value in Service.seen[-1][1].items()}
    assert headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
    assert "/eu-central-1/kms/aws4_request" in headers["authorization"]


def test_the_signature_is_that_of_the_example_in_aws_documentation() -> None:
    secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
    assert signing_key(secret, "20150830", "us-east-1", "iam").hex() == (
        "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9"
    )
    signed = sign(
        "GET",
        "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08",
        {"content-type": "application/x-www-form-urlencoded; charset=utf-8"},
        b"",
        region="us-east-1",
        service="iam",
        credentials=Credentials("AKIDEXAMPLE", secret),
        now=datetime(2015, 8, 30, 12, 36, 0, tzinfo=UTC),
    )
    assert signed["authorization"].endswith(
        "SignedHeaders=content-type;host;x-amz-date, "
        "Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
    )


class Vault(Service):
    """Azure Key Vault and its sign-in: a stand-in with RSA keys of its own, which answers as the reference says."""

    keys: ClassVar[list[rsa.RSAPrivateKey]] = []
    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"] or 0))
        path = self.path.partition("?")[0]
        self.asked.append(path)
        if path == "/tenant/oauth2/v2.0/token":
            form = parse_qs(data.decode())
            if form["client_secret"] != ["right"] or form["scope"] != ["https://vault.azure.net/.default"]:
                return self._answer(401, {"error_description": data.decode()})
            return self._answer(200, {"access_token": "bearer", "expires_in": 3600})
        if self.headers["Authorization"] != "Bearer bearer" or "api-version=7.4" not in self.path:
            return self._answer(401, {})
        if path == "/keys/trainyard/rotate":
            self.keys.append(rsa.generate_private_key(65537, 2048))
            return self.do_GET()
        version, verb = path.removeprefix("/keys/trainyard/v").split("/")
        body, key = json.loads(data), self.keys[int(version) - 1]
        assert body["alg"] == "RSA-OAEP-256"
        value = base64.urlsafe_b64decode(body["value"] + "=" * (-len(body["value"]) % 4))
        how = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), None)
        try:
            made = key.public_key().encrypt(value, how) if verb == "wrapkey" else key.decrypt(value, how)
        except ValueError:
            return self._answer(400, {"error": {"message": body["value"]}})
        return self._answer(200, {"kid": "unused", "value": base64.urlsafe_b64encode(made).decode().rstrip("=")})

    def do_GET(self) -> None:
        self._answer(200, {"key": {"kid": f"https://real.vault.azure.net/keys/trainyard/v{len(self.keys)}"}})


@pytest.fixture
def vault(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An address of Azure's stand-in, and an application that may use it."""
    monkeypatch.setattr(Vault, "keys", [rsa.generate_private_key(65537, 2048)])
    monkeypatch.setattr(Vault, "asked", [])
    with served(Vault) as place:
        values = {"TENANT_ID": "tenant", "CLIENT_ID": "me", "CLIENT_SECRET": "right", "AUTHORITY_HOST": place}
        for name, value in values.items():
            monkeypatch.setenv(f"AZURE_{name}", value)
        yield place


def test_azure_wraps_for_one_place_and_rotates(vault: str) -> None:
    keys = AzureKeys(f"{vault}/keys/trainyard", azure_token)
    key_id, wrapped = keys.wrap(b"k" * 32, "place")
    assert key_id == "azure:https://real.vault.azure.net/keys/trainyard/v1" == keys.newest()
    assert keys.unwrap(key_id, wrapped, "place") == b"k" * 32
    with pytest.raises(KeyProblem, match="another place"):
        keys.unwrap(key_id, wrapped, "elsewhere")
    keys.rotate()
    assert keys.newest().endswith("/v2") and keys.unwrap(key_id, wrapped, "place") == b"k" * 32
    with pytest.raises(KeyProblem, match="400"):
        keys.unwrap(keys.newest(), wrapped, "place")
    assert Vault.asked.count("/tenant/oauth2/v2.0/token") == 1, "a token lasts"


def test_what_azure_refuses_is_said_without_what_was_sent(vault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "wrong-one")
    with pytest.raises(KeyProblem, match="401") as refused:
        AzureKeys(f"{vault}/keys/trainyard", azure_token).newest()
    assert "wrong-one" not in str(refused.value)
    monkeypatch.delenv("AZURE_CLIENT_SECRET")
    with pytest.raises(KeyProblem, match="AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET"):
        azure_token()
    with pytest.raises(KeyProblem, match="cannot be reached"):
        AzureKeys("http://127.0.0.1:9/keys/one", lambda: ("bearer", 1e12)).newest()
    with pytest.raises(KeyProblem, match="names no version"):
        AzureKeys(f"{vault}/keys/one", lambda: ("bearer", 1e12)).unwrap("azure:x/..", "", "place")
    for odd in ("https://one.vault.azure.net", "https://one.vault.azure.net/keys/name/version"):
        with pytest.raises(KeyProblem, match="no address of a key"):
            AzureKeys(odd, azure_token)
