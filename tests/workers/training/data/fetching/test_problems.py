"""Data is not fetched from the node's own network: by no protocol, through no redirect, under no name."""

from __future__ import annotations

import http.server
import ipaddress
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workers.training.data.bringing import load_table
from tests.workers.training.data.file_server import FileServer, serve_files
from trainyard.formats.addresses import HOSTS, address_problem
from workers.data_access import ROOTS, location_problem
from workers.training.data.fetching import fetch
from workers.training.data.fetching.problems import RefusedAddress, only_allowed_hosts
from workers.training.data.problems import DataProblem

ROWS = b"height,label\n" + b"".join(b"%d,%d\n" % (index, index % 2) for index in range(20))


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fetch, "PAUSE_S", 0.01)
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(HOSTS, raising=False)


@pytest.fixture
def site() -> Iterator[FileServer]:
    with serve_files() as server:
        server.files["/rows.csv"] = ROWS
        yield server


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "127.8.9.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
     "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1",
     "::ffff:127.0.0.1", "::ffff:169.254.169.254", "2002:7f00:1::", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
     "fec0::1", "feff::1", "192.0.0.1", "192.0.0.192", "::ffff:192.0.0.192", "64:ff9b::c000:c0"],
)  # fmt: skip
def test_what_is_not_the_internets_is_refused(address: str) -> None:
    assert "leads to" in address_problem(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101", "192.0.1.1"]
)
def test_what_is_the_internets_is_fetched_from(address: str) -> None:
    assert address_problem(ipaddress.ip_address(address)) == ""


@pytest.mark.parametrize(
    ("words", "address", "is_allowed"),
    [
        ("10.0.0.0/8", "10.9.8.7", True),
        ("10.0.0.0/8", "192.168.0.1", False),
        ("192.168.0.7, fd00::/8", "fd12::1", True),
        ("192.168.0.7", "::ffff:192.168.0.7", True),
        ("localhost", "127.0.0.1", True),
        ("localhost", "10.0.0.1", False),
        ("no-such-host.invalid", "10.0.0.1", False),
    ],
)
def test_hosts_and_networks_are_allowed_by_the_setting(
    monkeypatch: pytest.MonkeyPatch, words: str, address: str, is_allowed: bool
) -> None:
    monkeypatch.setenv(HOSTS, words)
    assert (address_problem(ipaddress.ip_address(address)) == "") is is_allowed


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "2130706433", "0", "[::ffff:127.0.0.1]"])
def test_no_spelling_of_this_machine_is_fetched_from(site: FileServer, host: str) -> None:
    port = site.url.rpartition(":")[2]
    with pytest.raises(DataProblem):
        load_table(f"http://{host}:{port}/rows.csv")
    assert not site.num_gets


def test_the_refusal_names_the_address_and_the_setting(site: FileServer) -> None:
    with pytest.raises(DataProblem, match=r"leads to 127\.0\.0\.1, which is an address of this machine.*DATA_HOSTS"):
        load_table(f"{site.url}/rows.csv")


@pytest.mark.parametrize("scheme", ["ftp", "http"])
def test_each_protocol_is_refused_before_anything_is_sent(scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.3)
        with pytest.raises(DataProblem, match=r"leads to 127\.0\.0\.1"):
            load_table(f"{scheme}://localhost:{server.getsockname()[1]}/rows.csv")
        with pytest.raises(TimeoutError):
            server.accept()


def test_a_redirect_to_the_inside_is_refused(site: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    class Redirect(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", f"{site.url}/rows.csv")
            self.end_headers()

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    # 127.0.0.2 stands for a host on the internet, which sends its visitors to 127.0.0.1.
    with http.server.ThreadingHTTPServer(("127.0.0.2", 0), Redirect) as outside:
        thread = threading.Thread(target=outside.serve_forever, args=(0.02,))
        thread.start()
        try:
            monkeypatch.setenv(HOSTS, "127.0.0.2")
            with pytest.raises(DataProblem, match=r"leads to 127\.0\.0\.1"):
                load_table(f"http://127.0.0.2:{outside.server_port}/rows.csv")
            monkeypatch.setenv(HOSTS, "127.0.0.0/8")
            assert load_table(f"http://127.0.0.2:{outside.server_port}/rows.csv").facts["num_rows"] == 20
        finally:
            outside.shutdown()
            thread.join()


def test_a_name_that_resolves_to_another_address_the_second_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first answer is the internet's, the second one ours: what counts is where it connects."""
    answers = ["93.184.216.34", "127.0.0.1"]
    monkeypatch.setattr(socket, "gethostbyname", lambda _: answers.pop(0))
    assert address_problem(ipaddress.ip_address(socket.gethostbyname("rebind.example"))) == ""
    with socket.create_server(("127.0.0.1", 0)) as server, only_allowed_hosts(), pytest.raises(RefusedAddress):
        socket.create_connection((socket.gethostbyname("rebind.example"), server.getsockname()[1]), timeout=1)


def test_sockets_of_this_machine_are_refused_and_all_is_as_before_afterwards(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(str(tmp_path / "s"))
        server.listen()
        with only_allowed_hosts(), pytest.raises(RefusedAddress):
            client.connect(str(tmp_path / "s"))
        client.connect(str(tmp_path / "s"))


@pytest.mark.parametrize("url", ["http://127.0.0.1/x.csv", "sftp://localhost/x.csv", "https://[0:0:0:0:0:0:0:1]/x.csv",
                                 "zip://a::http://169.254.169.254/x.zip", "http://LOCALHOST./x.csv"])  # fmt: skip
@pytest.mark.parametrize("roots", ["", "/data"])
def test_what_is_inside_at_first_sight_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, url: str, roots: str
) -> None:
    monkeypatch.setenv(ROOTS, roots)
    assert "of this machine or of its own network" in location_problem(url)
    monkeypatch.setenv(HOSTS, "127.0.0.0/8 ::1 169.254.169.254")
    assert location_problem(url) == ""
