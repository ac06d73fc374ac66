"""The processes of a server behind nginx and Caddy with their documented sites, and TLS of a company's authority."""

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

PATH = f"{os.environ['PATH']}:/usr/sbin"
NGINX = """
user www-data;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
daemon off;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {folder}/bodies;
    proxy_temp_path {folder}/answers;
    {site}
}}
"""
CADDY = """
{{
    admin off
    auto_https disable_redirects
    default_bind 127.0.0.1
    storage file_system {folder}/caddy
}}
{site}
"""
PACKAGES = {"nginx": "nginx-light", "caddy": "caddy"}
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a proxy becomes another user, which root may")


class Served:
    def __init__(self, folder: Path, proxy: str, program: str) -> None:
        self.proxy, self._program = proxy, program
        self.folder, self.home, self.port = folder, new_home(folder), free_port()
        self.url = f"https://localhost:{self.port}"
        self.web_port = free_port()
        self.redis = Valkey(folder / "valkey")
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self.redis.start()
        self._certify()
        self._begin([sys.executable, "-m", "dashboard.serve", "web"])
        if self.proxy == "nginx":
            conf = self.folder / "nginx.conf"
            conf.write_text(NGINX.format(folder=self.folder, site=self.nginx_site()))
            self._begin([self._program, "-p", str(self.folder), "-c", str(conf)])
        else:
            conf = self.folder / "Caddyfile"
            conf.write_text(CADDY.format(folder=self.folder, site=self.caddy_site()))
            (self.folder / "caddy").mkdir()
            for name in ("server.key", "caddy"):
                shutil.chown(self.folder / name, "caddy")
            words = ["setpriv", "--reuid", "caddy", "--regid", "caddy", "--clear-groups", "env", f"HOME={self.folder}"]
            self._begin([*words, self._program, "run", "--adapter", "caddyfile", "--config", str(conf)])
        wait_until(lambda: self.answers(), f"{self.proxy} leads to web")

    def _certify(self) -> None:
        """An authority, and a certificate of it for localhost."""

        def openssl(*words: str) -> None:
            subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True, timeout=60)

        new = ("-newkey", "rsa:2048", "-nodes")
        may_sign = ("-addext", "keyUsage=critical,keyCertSign")
        openssl("req", "-x509", *new, "-days", "2", "-subj", "/CN=A company", *may_sign, "-keyout", "ca.key",
                "-out", "ca.pem")  # fmt: skip
        openssl("req", *new, "-subj", "/CN=localhost", "-keyout", "server.key", "-out", "server.csr")
        (self.folder / "names").write_text("subjectAltName=DNS:localhost\nauthorityKeyIdentifier=keyid\n")
        openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                "-days", "2", "-extfile", "names", "-out", "server.pem")  # fmt: skip

    def nginx_site(self) -> str:
        """The documented one, with ports and files of this test."""
        return self._mine((ROOT / "docs" / "deploy" / "nginx.conf").read_text(), "localhost").replace(
            "listen 443 ssl", f"listen 127.0.0.1:{self.port} ssl"
        )

    def caddy_site(self) -> str:
        return self._mine((ROOT / "docs" / "deploy" / "Caddyfile").read_text(), self.url)

    def _mine(self, text: str, name: str) -> str:
        text = text.replace("trainyard.example.org", name).replace("127.0.0.1:8000", self.web)
        return re.sub(r"/etc/ssl/trainyard", str(self.folder), text)

    @property
    def web(self) -> str:
        return f"127.0.0.1:{self.web_port}"

    @property
    def environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        ours = {"TRAINYARD_HOME": str(self.home), "PORT": str(self.web_port), "REDIS_URL": self.redis.url}
        return {**inherited, **ours, "PUBLIC_URL": self.url, "FORWARDED_ALLOW_USERS": "www-data,caddy"}

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, verify=self.context(), follow_redirects=True, timeout=30)

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.folder / "ca.pem"))

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


@pytest.fixture(scope="module", params=PACKAGES)
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    program = shutil.which(request.param, path=PATH)
    if program is None:
        pytest.skip(f"{request.param} is not on this machine (Debian: apt-get install {PACKAGES[request.param]})")
    with short_folder("ty-proxy-") as folder:
        folder.chmod(0o755)
        one = Served(folder, request.param, program)
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


def test_events_are_sent_at_once(served: Served) -> None:
    with served.client() as client:
        client.get(served.sign_in_link())
        with client.stream("GET", "/api/v1/events?since=0") as answer:
            assert answer.status_code == 200
            assert next(answer.iter_text()).startswith("retry: "), "neither the proxy nor compression waits for more"


def test_a_terminal_trusts_the_companys_authority_where_it_is_named(served: Served) -> None:
    def said(**changes: str) -> str:
        environment = {**served.environment, "TRAINYARD_URL": served.url, "TRAINYARD_TOKEN": "no-token", **changes}
        words = [sys.executable, "-m", "trainyard", "runs"]
        done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 3, done.stdout + done.stderr
        return done.stderr

    assert "certificate" in said()
    assert "token" in said(TRAINYARD_CA=str(served.folder / "ca.pem"))
