"""The processes of a server behind nginx with its documented site, over TLS of an authority of its own."""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.sync.client import connect
from websockets.typing import Origin

from dashboard.up.parent_death import tethered
from tests.servers import Valkey, free_port, short_folder
from tests.up_process import OURS, ROOT, new_home, wait_until

NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
WRAPPED = """
user www-data;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
daemon off;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/bodies;
    proxy_temp_path {folder}/answers;
    {site}
}}
"""
pytestmark = [
    pytest.mark.skipif(NGINX is None, reason="nginx is not on this machine (Debian: apt-get install nginx-light)"),
    pytest.mark.skipif(os.geteuid() != 0, reason="nginx becomes another user, which root may"),
]


class Served:
    def __init__(self, folder: Path) -> None:
        self.folder, self.home, self.port = folder, new_home(folder), free_port()
        self.url = f"https://localhost:{self.port}"
        self.web_port = free_port()
        self.redis = Valkey(folder / "valkey")
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self.redis.start()
        names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
        files = ("-keyout", str(self.folder / "server.key"), "-out", str(self.folder / "server.pem"))
        words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files]
        subprocess.run(words, check=True, capture_output=True, timeout=60)
        self._begin([sys.executable, "-m", "dashboard.serve", "web"])
        conf = self.folder / "nginx.conf"
        conf.write_text(WRAPPED.format(folder=self.folder, site=self.site()))
        self._begin([str(NGINX), "-p", str(self.folder), "-c", str(conf)])
        wait_until(lambda: self.answers(), "nginx leads to web")

    def site(self) -> str:
        """The documented one, with ports and files of this test."""
        text = (ROOT / "docs" / "deploy" / "nginx.conf").read_text()
        text = text.replace("listen 443 ssl", f"listen 127.0.0.1:{self.port} ssl").replace("127.0.0.1:8000", self.web)
        text = text.replace("trainyard.example.org", "localhost")
        return re.sub(r"/etc/ssl/trainyard", str(self.folder), text)

    @property
    def web(self) -> str:
        return f"127.0.0.1:{self.web_port}"

    @property
    def environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        ours = {"TRAINYARD_HOME": str(self.home), "PORT": str(self.web_port), "REDIS_URL": self.redis.url}
        return {**inherited, **ours, "PUBLIC_URL": self.url, "FORWARDED_ALLOW_USERS": "www-data"}

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, verify=self.context(), follow_redirects=True, timeout=30)

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.folder / "server.pem"))

    def answers(self) -> bool:
        try:
            with self.client() as client:
                return client.get("/api/v1/health").json()["live"] is True
        except (httpx.TransportError, ValueError):
            return False

    def sign_in_link(self) -> str:
        words = [sys.executable, "-m", "dashboard.sign_in"]
        done = subprocess.run(words, cwd=ROOT, env=self.environment, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def stop(self) -> None:
        for one in self.processes:
            one.terminate()
            one.wait(timeout=30)
        self.redis.stop()

    def _begin(self, command: list[str]) -> None:
        self.processes.append(subprocess.Popen(tethered(command), cwd=ROOT, env=self.environment))


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with short_folder("ty-nginx-") as folder:
        folder.chmod(0o755)
        one = Served(folder)
        try:
            one.start()
            yield one
        finally:
            one.stop()


def test_one_signs_in_over_tls_with_pages_and_sockets(served: Served) -> None:
    link = served.sign_in_link()
    assert link.startswith(f"{served.url}/")
    with served.client() as client:
        assert client.get("/").url.path.startswith("/sign-in")
        client.get(link, headers={"X-Forwarded-For": "192.0.2.7", "X-Forwarded-Proto": "http"})
        assert client.get("/").url.path == "/"
        assert client.cookies and all(one.secure for one in client.cookies.jar)
        sessions = client.get("/account/security/").text
        assert "127.0.0.1" in sessions and "192.0.2.7" not in sessions, "who asks says nothing of its own address"
        cookie = "; ".join(f"{one.name}={one.value}" for one in client.cookies.jar)
    address = f"wss://localhost:{served.port}/ws/overview/"
    with connect(
        address, ssl=served.context(), origin=Origin(served.url), additional_headers={"Cookie": cookie}
    ) as socket:
        assert socket.ping().wait(10)
