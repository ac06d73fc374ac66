"""Addresses and host keys of machines that are reached over SSH."""

from __future__ import annotations

import pytest

from runs.engines.openssh.client import problem_of
from runs.engines.openssh.identity import key_file_problem, key_problem
from runs.engines.openssh.target import Target, host_key_problem, host_problem, read_address, read_host_key

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIcHHQfVXFFvOtDHcXNPTLfkOs4MjrHgqRaVYKxMKZXf"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("me@host", ("me", "host", 22)),
        ("me@host.example.org:2222", ("me", "host.example.org", 2222)),
        ("me@[::1]:2222", ("me", "::1", 2222)),
        ("me@[fe80::1]", ("me", "fe80::1", 22)),
    ],
)
def test_addresses_are_read(text: str, parts: tuple[str, str, int]) -> None:
    assert read_address(text) == parts


@pytest.mark.parametrize(
    "text",
    ["host", "@host", "me@", "me@-oProxyCommand=id", "me@ho st", "-l@host", "me@host:", "me@host:0", "me@host:70000",
     "me@host:x", "me@[::1", "me@[::1]2", "me@host;id", "me@$(id)"],
)  # fmt: skip
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        read_address(text)


def test_a_host_key_is_found_in_what_people_paste() -> None:
    for text in (KEY, f"{KEY} root@host", f"host {KEY}", f"[host]:2222 {KEY} comment"):
        assert read_host_key(text) == KEY
    assert Target("host", "me", KEY).fingerprint.startswith("SHA256:")
    assert host_key_problem(KEY) == ""


@pytest.mark.parametrize(
    "text", ["ssh-ed25519", "AAAA", f"{KEY[:50]}", f"ssh-rsa {KEY.split()[1]}", "ssh-dss AAAA", "a"]
)
def test_what_is_no_host_key_is_refused(text: str) -> None:
    assert host_key_problem(text)


def test_a_host_is_no_option() -> None:
    assert host_problem("-oProxyCommand=id") and host_problem("a b") and not host_problem("login.example.org")


def test_a_key_is_refused_without_showing_it() -> None:
    assert "secret" not in key_problem("secret")
    whole = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"
    assert key_problem(whole) == ""
    assert key_problem(whole[:-20])


@pytest.mark.parametrize("path", ["/etc/passwd", "../key", "a/../../key", "a\nb"])
def test_a_key_file_is_below_the_home(path: str) -> None:
    assert key_file_problem(path)
    assert not key_file_problem("keys/hpc")


@pytest.mark.parametrize(
    ("complaint", "words"),
    [
        ("@@@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @@@\nHost key verification failed.", "another host key"),
        ("No ED25519 host key is known for x.\nHost key verification failed.", "another host key"),
        ("me@host: Permission denied (publickey).", "does not let the server in"),
        ('Load key "/x": invalid format\nme@host: Permission denied', "without a passphrase"),
        ("ssh: Could not resolve hostname host: Name or service not known", "Could not resolve hostname"),
        ("", "the connection ended"),
    ],
)
def test_complaints_are_sentences(complaint: str, words: str) -> None:
    sentence = problem_of(Target("host", "me", KEY), complaint)
    assert words in sentence and "me@host" in sentence and sentence.endswith((".", "?"))
