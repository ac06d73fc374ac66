"""Who gets the file ``client.toml`` gets nothing by it: its token is for processes of the server's own user. A forged
address counts for nothing either: who says for whom they speak is a proxy of ours, and no rank on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from http import HTTPStatus
from http.client import HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from dashboard.http.own_clients import TABLES, why_not
from runs.rights.access import MACHINE_PREFIX
from tests.servers import short_folder
from tests.up_process import Up, new_home

NOBODY, PROXY = 65534, 4242
is_root = pytest.mark.skipif(os.getuid() != 0, reason="only root makes sockets of other users")
has_tables = pytest.mark.skipif(not TABLES[0].exists(), reason="this system does not say whose a socket is")


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    """Behind a public address, where the file leads here straight."""
    with short_folder("ty-own-") as folder:
        one = Up(new_home(folder), PUBLIC_URL="http://train.example.org", FORWARDED_ALLOW_USERS=f"root, {PROXY}")
        try:
            yield one.wait_until_ready()
        finally:
            one.close()


@contextlib.contextmanager
def connection(up: Up, *, user: int | None = None) -> Iterator[socket.socket]:
    """A connection to the server whose socket is of ``user``."""
    place = urlsplit(up.url)
    if user is not None:
        os.seteuid(user)
    try:
        one = socket.socket()
    finally:
        os.seteuid(os.getuid())
    with one:
        one.settimeout(20)
        one.connect((place.hostname, place.port))
        yield one


def ask(one: socket.socket, token: str, *more: str, path: str = "/api/v1/me") -> tuple[int, str]:
    """Return status and body of the answer to one request of a connection that stays open."""
    place = "{}:{}".format(*one.getpeername())
    lines = (f"GET {path} HTTP/1.1", f"Host: {place}", f"Authorization: Bearer {token}", *more, "", "")
    one.sendall("\r\n".join(lines).encode())
    answer = HTTPResponse(one)
    answer.begin()
    is_socket = answer.status == HTTPStatus.SWITCHING_PROTOCOLS
    return answer.status, "" if is_socket else answer.read().decode(errors="replace")


def test_a_program_of_the_servers_own_user_uses_it_again_and_again(up: Up) -> None:
    assert up.token.startswith(MACHINE_PREFIX) and up.url.startswith("http://127.0.0.1:")
    with connection(up) as one:
        assert ask(one, up.token)[0] == ask(one, up.token)[0] == HTTPStatus.OK


@is_root
@has_tables
def test_another_user_who_read_the_file_is_refused_and_told_why(up: Up) -> None:
    with connection(up, user=NOBODY) as one:
        status, said = ask(one, up.token)
    assert status == HTTPStatus.UNAUTHORIZED
    assert f"This request came from user {NOBODY} of this machine." in said


@is_root
@has_tables
def test_another_user_gets_no_socket_with_it(up: Up) -> None:
    words = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
             "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", f"Origin: {up.url}")  # fmt: skip
    with connection(up) as one:
        assert ask(one, up.token, *words, path="/ws/overview/")[0] == HTTPStatus.SWITCHING_PROTOCOLS
    with connection(up, user=NOBODY) as one:
        assert ask(one, up.token, *words, path="/ws/overview/")[0] == HTTPStatus.FORBIDDEN


@is_root
@has_tables
def test_nobody_borrows_the_connection_of_another_by_a_header(up: Up) -> None:
    with connection(up) as ours, connection(up, user=NOBODY) as one:
        host, port = ours.getsockname()
        status, said = ask(one, up.token, f"X-Forwarded-For: {host}:{port}")
        assert status == HTTPStatus.UNAUTHORIZED and "by a proxy" in said
        assert ask(ours, up.token, "X-Forwarded-For: 10.0.0.7")[0] == HTTPStatus.UNAUTHORIZED


def address_of_sign_in(up: Up, claimed: str, user: int) -> str:
    """Return the address that the audit has of a wrong password, sent over a connection of ``user``."""
    with httpx.Client(
        base_url=up.url, headers={"X-Forwarded-For": claimed, "Origin": up.url}, trust_env=False
    ) as client:
        os.seteuid(user)
        try:
            page = client.get("/sign-in/").text
        finally:
            os.seteuid(os.getuid())
        csrf = page.partition('name="csrfmiddlewaretoken" value="')[2].partition('"')[0]
        form = {"username": "guest", "password": "wrong", "csrfmiddlewaretoken": csrf}
        assert client.post("/sign-in/", data=form).status_code == HTTPStatus.UNPROCESSABLE_ENTITY
    with connection(up) as ours:
        status, said = ask(ours, up.token, path="/api/v1/audit?limit=1")
    assert status == HTTPStatus.OK, said
    return str(json.loads(said)["items"][0]["address"])


@is_root
@has_tables
def test_another_user_of_this_machine_forges_no_address(up: Up) -> None:
    assert address_of_sign_in(up, "203.0.113.1", NOBODY) == "127.0.0.1"
    assert address_of_sign_in(up, "203.0.113.2", PROXY) == "203.0.113.2", "the user that the setting names"
    assert address_of_sign_in(up, "203.0.113.3", os.getuid()) == "203.0.113.3", "the server's own user"


HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
OURS, SERVER = ("127.0.0.1", 40000), ("127.0.0.1", 8000)


def table(folder: Path, local: str, remote: str, uid: int, inode: int) -> tuple[Path, ...]:
    path = folder / "tcp"
    path.write_text(
        f"{HEAD}   0: {local}:9C40 {remote}:1F40 01 00000000:00000000 00:00000000 00000000 {uid} 0 {inode}\n"
    )
    return (path,)


def test_both_families_and_ipv4_within_ipv6_are_found(tmp_path: Path) -> None:
    mapped = "0000000000000000FFFF00000100007F"
    assert why_not(OURS, SERVER, table(tmp_path, "0100007F", "0100007F", 0, 7)) == ""
    assert why_not(("::ffff:127.0.0.1", 40000), SERVER, table(tmp_path, mapped, mapped, os.getuid(), 7)) == ""
    loopback = "00000000000000000000000001000000"
    assert why_not(("::1", 40000), ("::1", 8000), table(tmp_path, loopback, loopback, 0, 7)) == ""
    assert "from user 4242" in why_not(OURS, SERVER, table(tmp_path, "0100007F", "0100007F", 4242, 7))


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
@is_root
@has_tables
def test_the_kernel_and_its_tables_say_the_same(family: socket.AddressFamily, host: str) -> None:
    with socket.create_server((host, 0), family=family) as server, socket.socket(family) as ours:
        ours.connect(server.getsockname())
        os.seteuid(NOBODY)
        try:
            another = socket.socket(family)
        finally:
            os.seteuid(os.getuid())
        with another:
            another.connect(server.getsockname())
            for tables in ((), TABLES):
                assert why_not(ours.getsockname(), server.getsockname(), tables) == ""
                assert f"user {NOBODY}" in why_not(another.getsockname(), server.getsockname(), tables)
                assert why_not(another.getsockname(), server.getsockname(), tables, users=(NOBODY,)) == ""
            gone = another.getsockname()
        assert "its connection is closed" in why_not(gone, server.getsockname())


def test_a_socket_that_was_closed_has_roots_number_and_is_nobodys(tmp_path: Path) -> None:
    """As where somebody sends a request and leaves before the answer."""
    assert "its connection is closed" in why_not(OURS, SERVER, table(tmp_path, "0100007F", "0100007F", 0, 0))


def test_another_machine_and_a_connection_without_an_address_are_refused(tmp_path: Path) -> None:
    assert "another machine" in why_not(("10.0.0.7", 40000), SERVER)
    assert "Nobody knows" in why_not(None, SERVER)
    nowhere = (tmp_path / "nothing",)
    assert why_not(OURS, SERVER, nowhere) == ""
    assert "another machine" in why_not(("10.0.0.7", 40000), SERVER, nowhere)
