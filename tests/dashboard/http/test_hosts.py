"""Which names the server answers to."""

from __future__ import annotations

import socket

import pytest

from dashboard.http.hosts import allowed, port_of, proxy_users, public_url, url


def test_a_server_for_this_machine_answers_to_nobody_elses_name() -> None:
    assert allowed("127.0.0.1", "http://127.0.0.1:8000", "") == ["127.0.0.1", "[::1]", "localhost"]


def test_a_server_on_every_address_answers_to_the_machine_s_own_names() -> None:
    names = allowed("0.0.0.0", "http://127.0.0.1:8000", "")
    assert socket.gethostname().lower() in names
    assert "127.0.0.1" in names
    assert not {"0.0.0.0", "*", ""} & set(names)


def test_the_public_name_and_those_that_are_given_are_answered() -> None:
    names = allowed("10.0.0.5", "https://train.lab.example", "alias.lab.example, other.example")
    assert {"10.0.0.5", "train.lab.example", "alias.lab.example", "other.example"} <= set(names)


def test_the_url_is_one_that_a_browser_opens() -> None:
    assert url("0.0.0.0", 8000) == "http://127.0.0.1:8000"
    assert url("::1", 8000) == "http://[::1]:8000"
    assert url("::", 8000) == "http://127.0.0.1:8000"


def test_users_are_given_by_name_or_number() -> None:
    assert proxy_users("root, 4242") == {0, 4242} and proxy_users("") == frozenset()
    with pytest.raises(ValueError, match="FORWARDED_ALLOW_USERS names 'no-such-user'"):
        proxy_users("no-such-user")


@pytest.mark.parametrize(
    ("given", "port"), [("https://train.example.org/", 443), ("http://10.0.0.5", 80), ("https://[::1]:8443", 8443)]
)
def test_people_see_a_name_and_a_port(given: str, port: int) -> None:
    assert public_url(given) == given.rstrip("/") and port_of(given) == port


@pytest.mark.parametrize(
    "given",
    ["https://example.org/trainyard", "https://example.org?a=1", "train.example.org", "ftp://example.org", "https://",
     "https://example.org:port", "https://example.org:99999", "https://me:hidden@example.org", "https://[::1"],
)  # fmt: skip
def test_an_address_with_more_than_a_name_and_a_port_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match=r"^PUBLIC_URL is .*such as https://trainyard\.example\.org"):
        public_url(given)
