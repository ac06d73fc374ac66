"""How a node comes to trust its server: by the fingerprint in its join token, and by what the server says later."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from dashboard.tls import folder
from trainyard.contract.calls.joining import JoinToken, pinned, unpinned
from trainyard.contract.keys import broker_url
from trainyard.rest.trust import AUTHORITIES, SERVER, certificates_in, fingerprint_of
from workers.transport.node_config import CannotStart
from workers.transport.trust import Trust, UnknownAuthority

NOW = datetime.now(UTC)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder.begin(tmp_path / "tls", ["127.0.0.1"], NOW)
    return tmp_path / "tls"


@pytest.fixture
def server(place: Path) -> Iterator[str]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = (place / AUTHORITIES).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(place / SERVER)
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as serving:
        serving.socket = context.wrap_socket(serving.socket, server_side=True)
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"https://127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


def of(place: Path) -> list[str]:
    return [fingerprint_of(one) for one in certificates_in((place / AUTHORITIES).read_text())]


def test_the_fingerprint_of_the_token_is_the_way_in(server: str, place: Path, tmp_path: Path) -> None:
    trust = Trust(tmp_path)
    trust.meet(server, of(place)[0])
    assert httpx.get(server, verify=trust.verify()).status_code == 200
    folder.rotate(place, [], NOW)
    assert trust.follow(httpx.get(server, verify=trust.verify()).text), "the news"
    assert certificates_in(trust.text) == certificates_in((place / AUTHORITIES).read_text())
    assert not trust.follow(trust.text) and not trust.follow("nothing")


def test_another_server_is_not_met(server: str, tmp_path: Path) -> None:
    trust = Trust(tmp_path)
    with pytest.raises(UnknownAuthority, match="is not the server that made this join token"):
        trust.meet(server, "0" * 64)
    with pytest.raises(CannotStart, match="begins with https://"):
        trust.meet("http://127.0.0.1:9", "0" * 64)
    with pytest.raises(CannotStart, match="cannot be reached"):
        trust.meet("https://127.0.0.1:9", "0" * 64)
    assert trust.verify() is True and not trust.path.exists()


def test_a_token_is_split_as_it_was_put_together() -> None:
    assert unpinned(pinned("join_a.b", "ab" * 32)) == JoinToken("join_a.b", "ab" * 32)
    assert unpinned("join_a-b_c") == JoinToken("join_a-b_c")


def test_the_broker_verifies_certificates_unless_the_address_says_otherwise(tmp_path: Path) -> None:
    assert broker_url("rediss://u:p@h:1/0") == "rediss://u:p@h:1/0?ssl_cert_reqs=required"
    assert broker_url("rediss://h:1/0?ssl_cert_reqs=none") == "rediss://h:1/0?ssl_cert_reqs=none"
    (tmp_path / AUTHORITIES).touch()
    url = Trust(tmp_path).valkey_url("rediss://u:p@h:1/0")
    options = {"ssl_cert_reqs": ["required"], "ssl_ca_certs": [str(tmp_path / AUTHORITIES)]}
    assert url.startswith("rediss://u:p@h:1/0?") and parse_qs(urlsplit(url).query) == options
    assert broker_url(url) == url
