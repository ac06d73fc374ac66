"""A registry of images on the loopback, which asks for a user and a password: the Distribution project's own server."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path

import httpx
import pytest

PROGRAM = "docker-registry"
USER, PASSWORD = "reader", "right-password-7"
# Of the password, by bcrypt, which is all that the server takes.
HASH = "$2b$06$abcdefghijklmnopqrstuuaIBr/sVBG3/dPgegvFDkBN1LDHtHIsm"
STARTS_S = 60.0


class Registry:
    """``host`` is what stands before the names of its images; Podman reads ``settings``: it has no certificate."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which(PROGRAM)
        if program is None:
            pytest.skip(f"{PROGRAM} is not on this machine (Debian: apt-get install docker-registry)")
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.host = f"127.0.0.1:{one.getsockname()[1]}"
        (folder / "htpasswd").write_text(f"{USER}:{HASH}\n")
        (folder / "registry.yml").write_text(
            "version: 0.1\n"
            "log: {level: warn}\n"
            f"storage: {{filesystem: {{rootdirectory: {folder}/images}}}}\n"
            f'http: {{addr: "{self.host}"}}\n'
            f"auth: {{htpasswd: {{realm: tests, path: {folder}/htpasswd}}}}\n"
        )
        registries = folder / "registries.conf"
        registries.write_text(f'[[registry]]\nlocation = "{self.host}"\ninsecure = true\n')
        self.settings = {"CONTAINERS_REGISTRIES_CONF": str(registries)}
        self._log = (folder / "registry.log").open("wb")
        self._process = subprocess.Popen(
            [program, "serve", str(folder / "registry.yml")], stdout=self._log, stderr=self._log
        )
        self._wait(folder)

    def _wait(self, folder: Path) -> None:
        deadline = time.monotonic() + STARTS_S
        while True:
            try:
                assert httpx.get(f"http://{self.host}/v2/").status_code == 401, "it lets everybody in"
                return
            except httpx.TransportError:
                assert self._process.poll() is None, (folder / "registry.log").read_text()
                assert time.monotonic() < deadline, "the registry does not answer"
                time.sleep(0.05)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=20)
        self._log.close()
