"""Real identity providers on the loopback, for the tests that want one: OpenID Connect (npm's oidc-provider) and SAML
(npm's samlify)."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from dashboard.up.parent_death import tethered
from tests.saml_answers import pair

ROOT = Path(__file__).resolve().parents[1]
# For the settings: who has the group `ml` is a viewer.
ROLE = '\n[[providers.roles]]\ngroup = "ml"\nproject = "default"\nrole = "viewer"\n'
CLIENT_ID, CLIENT_SECRET = "trainyard", "a-secret-of-the-client"


class IdentityProvider:
    """One that runs, and the people in it."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer

    def put(self, name: str, **claims: Any) -> None:
        httpx.put(f"{self.issuer}/people/{name}", json=claims).raise_for_status()

    def remove(self, name: str) -> None:
        httpx.delete(f"{self.issuer}/people/{name}").raise_for_status()

    def settings(self, **changes: Any) -> str:
        """Return the settings file of a Trainyard that trusts it."""
        values = {"create_people": True, "check_every_s": 10, **changes}
        lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
        return "\n".join(
            [
                "[[providers]]",
                'id = "corp"',
                'name = "Example Corp"',
                f'issuer = "{self.issuer}"',
                f'client_id = "{CLIENT_ID}"',
                'client_secret_variable = "CORP_SECRET"',
                *lines,
            ]
        )


class SamlProvider(NamedTuple):
    """One that runs, and the people in it."""

    address: str
    certificate_file: Path

    def put(self, name: str, **attributes: Any) -> None:
        httpx.put(f"{self.address}/people/{name}", json=attributes).raise_for_status()

    def settings(self) -> str:
        """Return the settings file of a Trainyard that trusts it."""
        return "\n".join(
            [
                "[[providers]]",
                'id = "corp"',
                'name = "Example Corp"',
                'protocol = "saml"',
                f'issuer = "{self.address}/saml"',
                f'sign_on_url = "{self.address}/saml/sign-on"',
                f'certificate_file = "{self.certificate_file}"',
                "create_people = true",
                "emails_are_verified = true",
            ]
        )


@contextmanager
def identity_provider(*redirect_uris: str) -> Iterator[IdentityProvider]:
    with _program("server.mjs", CLIENT_ID, CLIENT_SECRET, *redirect_uris) as address:
        yield IdentityProvider(address)


@contextmanager
def saml_identity_provider(folder: Path, metadata_url: str) -> Iterator[SamlProvider]:
    """``metadata_url``: where the site says what a provider is to know of it."""
    key, certificate = folder / "provider.key", folder / "provider.pem"
    made = pair("provider")
    key.write_text(made.key)
    certificate.write_text(made.certificate)
    with _program("saml.mjs", str(key), str(certificate), metadata_url) as address:
        yield SamlProvider(address, certificate)


@contextmanager
def _program(name: str, *words: str) -> Iterator[str]:
    """Yield the address of a provider that runs."""
    node = shutil.which("node") or str(ROOT / ".venv" / "bin" / "node")
    port = free_port()
    program = ROOT / "tests" / "identity_provider" / name
    process = subprocess.Popen(
        tethered([node, str(program), str(port), *words]),
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        said = []
        for line in process.stdout:
            said.append(line)
            if line.startswith("listening"):
                break
        assert process.poll() is None, "".join(said)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
        print(process.stdout.read())  # which pytest shows of a test that failed
        process.stdout.close()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
