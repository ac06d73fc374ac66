"""By which proxy each client's requests go, with a real proxy that records what it was asked for."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from dashboard.tls.folder import begin
from trainyard.rest.client import Client
from trainyard.rest.connection import Unreachable
from trainyard.rest.http_clients import direct_client, outside_client, server_client, spare_loopback
from trainyard.rest.trust import AUTHORITIES

NAMES = [name for one in ("http", "https", "all", "no") for name in (f"{one}_proxy", f"{one}_proxy".upper())]
CLOSED = "http://me:hidden@127.0.0.1:1"
CLIENTS = (server_client, outside_client, direct_client)
Make = Callable[[], httpx.Client]


class Recorder(ThreadingHTTPServer):
    """A server, or a proxy, that answers everything and records its first line."""

    def __init__(self) -> None:
        asked = self.asked = list[str]()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(f"{self.command} {self.path}")
                self.send_response(200 if self.command == "GET" else 502)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_CONNECT = do_GET

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*NAMES, "TRAINYARD_PROXY", "TRAINYARD_CA"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with Recorder() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("make", CLIENTS)
@pytest.mark.parametrize("proxy", [CLOSED, "socks5://127.0.0.1:1", "nonsense://x"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_loopback_is_reached_whatever_proxies_the_environment_names(
    make: Make, proxy: str, host: str, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "https_proxy", "ALL_PROXY", "TRAINYARD_PROXY"):
        monkeypatch.setenv(name, proxy)
    monkeypatch.setenv("NO_PROXY", "elsewhere.example")
    with make() as client:
        assert client.get(recorder.url.replace("127.0.0.1", host) + "/here").status_code == 200
    assert recorder.asked == ["GET /here"]


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
def test_other_services_are_asked_through_the_environments_proxy(
    name: str, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, recorder.url.removeprefix("http://"))
    with outside_client() as client:
        assert client.get("http://elsewhere.example/a").status_code == 200
        assert client.get("http://other.example/b").status_code == 200
    assert recorder.asked == ["GET http://elsewhere.example/a", "GET http://other.example/b"]


@pytest.mark.parametrize(
    ("excepted", "host"),
    [("240.0.0.0/8", "240.1.2.3"), ("a.example,.b.invalid", "x.b.invalid"), ("*", "c.invalid"),
     ("c.invalid:81", "c.invalid:81"), ("fd00::/8", "[fd00::1]")],
)  # fmt: skip
def test_no_proxy_has_names_numbers_and_networks(
    excepted: str, host: str, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", recorder.url)
    monkeypatch.setenv("NO_PROXY", excepted)
    with outside_client(timeout=0.5) as client, suppress(httpx.TransportError):  # nobody is there
        client.get(f"http://{host}/")
    assert recorder.asked == []


def test_the_server_is_asked_directly_or_by_the_proxy_that_is_named_for_it(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", recorder.url)
    with server_client() as client:
        with pytest.raises(
            httpx.ConnectError, match=r"without the proxy http://127.0.0.1:\d+ \(HTTP_PROXY\): TRAINYARD_"
        ):
            client.get("http://server.invalid/")
        monkeypatch.setenv("TRAINYARD_PROXY", recorder.url)
        assert client.get("http://server.invalid/").status_code == 200
    assert recorder.asked == ["GET http://server.invalid/"]


def test_a_proxy_that_fails_is_named_without_its_password(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", CLOSED)
    with outside_client() as client, pytest.raises(httpx.ConnectError) as refused:
        client.get("https://elsewhere.example/")
    assert str(refused.value).endswith("through the proxy http://127.0.0.1:1 (HTTPS_PROXY)")
    monkeypatch.setenv("HTTPS_PROXY", recorder.url)
    with outside_client() as client, pytest.raises(httpx.ProxyError, match=r"502 .*, through the proxy http://127"):
        client.get("https://elsewhere.example/")


@pytest.mark.parametrize(
    ("proxy", "why"), [("socks5://127.0.0.1:1", "SOCKS needs the package socksio"), ("x://y", "begins with http://")]
)
def test_a_proxy_of_an_unknown_kind_is_a_sentence(proxy: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_PROXY", proxy)
    with Client("http://server.invalid", "ty_any") as client, pytest.raises(Unreachable, match=why) as raised:
        client.call("GET", "me", dict)
    assert f"through the proxy {proxy} (TRAINYARD_PROXY)" in str(raised.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs mounts")
def test_an_authority_of_the_machine_is_trusted(tmp_path: Path) -> None:
    """As a company's is, which its machines have among those of the system."""
    systems = ssl.get_default_verify_paths().openssl_cafile
    if not Path(systems).exists():
        pytest.skip("this machine has no file of authorities")
    begin(tmp_path / "company", ["127.0.0.1"], datetime.now(UTC))
    code = """
from trainyard.rest.http_clients import known_authorities
print(any("Trainyard CA" in str(one["subject"]) for one in known_authorities().get_ca_certs()))
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SSL_CERT_")}
    words = 'mount --bind "$0" "$1" && exec "$2" -c "$3"'
    place = [str(tmp_path / "company" / AUTHORITIES), systems, sys.executable, code]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", words, *place], capture_output=True, text=True, timeout=30, env=environment
    )
    if "mount:" in done.stderr or "unshare:" in done.stderr:
        pytest.skip(done.stderr)
    assert done.stdout.strip() == "True", done.stderr


def test_libraries_and_children_are_told_to_spare_the_loopback() -> None:
    environment = {"https_proxy": CLOSED, "NO_PROXY": "a.example, localhost"}
    spare_loopback(environment)
    spare_loopback(environment)
    assert environment["no_proxy"] == environment["NO_PROXY"] == "a.example,localhost,127.0.0.1,::1"
    for unchanged in ({"TRAINYARD_PROXY": CLOSED}, {"NO_PROXY": "a.example"}, {"ALL_PROXY": CLOSED, "NO_PROXY": "*"}):
        before = dict(unchanged)
        spare_loopback(unchanged)
        assert unchanged == before
