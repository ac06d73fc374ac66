"""What `trainyard doctor` lets a machine try is what a node does there as it joins."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dashboard.tls import folder
from trainyard.rest.trust import AUTHORITIES, SERVER, VARIABLE, certificates_in, fingerprint_of
from workers.machine.probe import problems_of


@pytest.fixture
def company(tmp_path: Path) -> Path:
    """The files of an authority that no system knows."""
    folder.begin(tmp_path / "company", ["127.0.0.1"], datetime.now(UTC))
    return tmp_path / "company"


@pytest.fixture
def server(company: Path) -> Iterator[str]:
    """A proxy in front of a server: it shows the company's certificate, and passes on which authorities there are."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = (company / AUTHORITIES).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(company / SERVER)
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as serving:
        serving.socket = context.wrap_socket(serving.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=serving.serve_forever, args=(0.05,))
        thread.start()
        yield f"https://127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


def test_a_certificate_that_a_node_would_refuse_is_a_problem(
    server: str, company: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    valkey = server.removeprefix("https://")
    (problem,) = problems_of(server, valkey, str(tmp_path))
    assert problem.startswith(f"server: The certificate of {server} is signed by an authority that is not known here")
    (known,) = certificates_in((company / AUTHORITIES).read_text())
    assert problems_of(server, valkey, str(tmp_path), fingerprint_of(known)) == [], "the join token names it"
    (other,) = problems_of(server, valkey, str(tmp_path), "0" * 64)
    assert "is not the server that made this join token" in other
    monkeypatch.setenv(VARIABLE, str(company / AUTHORITIES))
    assert problems_of(server, valkey, str(tmp_path)) == [], "the job's variable names it"
