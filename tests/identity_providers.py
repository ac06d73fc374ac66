"""A real OpenID Connect provider (npm's oidc-provider) on the loopback, for the tests that want one."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from dashboard.up.parent_death import tethered

ROOT = Path(__file__).resolve().parents[1]
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


@contextmanager
def identity_provider(*redirect_uris: str) -> Iterator[IdentityProvider]:
    node = shutil.which("node") or str(ROOT / ".venv" / "bin" / "node")
    port = free_port()
    program = ROOT / "tests" / "identity_provider" / "server.mjs"
    process = subprocess.Popen(
        tethered([node, str(program), str(port), CLIENT_ID, CLIENT_SECRET, *redirect_uris]),
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
        yield IdentityProvider(f"http://127.0.0.1:{port}")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
