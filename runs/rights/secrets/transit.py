"""Keys of Vault's or OpenBao's transit engine: data keys go there to be wrapped and unwrapped, the key never leaves."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable

import httpx

from runs.rights.secrets.key_stores import KeyProblem
from trainyard.rest.http_clients import outside_client, why_not

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
        """Nothing: the service keeps old versions until its administrator raises min_decryption_version."""

    def _id(self, ciphertext: str) -> str:
        found = VERSION.match(ciphertext)
        return f"transit:{self._name}:v{found[1] if found else ''}"

    def _post(self, verb: str, body: dict[str, str]) -> dict[str, str]:
        return self._call("POST", f"{verb}/{self._name}", body)

    def _call(self, method: str, path: str, body: dict[str, str] | None) -> dict[str, str]:
        headers = {"X-Vault-Token": self._token(), "X-Vault-Request": "true"}
        if self._namespace:
            headers["X-Vault-Namespace"] = self._namespace
        try:
            with outside_client(timeout=TIMEOUT) as client:
                answer = client.request(method, f"{self._engine}/{path}", headers=headers, json=body)
            answer.raise_for_status()
            data = answer.json().get("data") if answer.content else {}
        except httpx.HTTPStatusError as error:  # its text would quote the address; the body may quote what was sent
            raise KeyProblem(f"The transit engine answered {error.response.status_code} to {path}.") from error
        except (httpx.HTTPError, ValueError) as error:
            raise KeyProblem(f"The transit engine cannot be reached: {why_not(error)}.") from error
        return data if isinstance(data, dict) else {}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
