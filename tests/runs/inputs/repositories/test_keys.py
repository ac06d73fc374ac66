"""Which Git key goes with which URL. Members name URLs and may not read keys: no URL takes a key elsewhere."""

from __future__ import annotations

import pytest

from runs import actions
from runs.inputs.repositories.keys import key_for
from runs.models import GitKey
from tests.cast import Cast
from trainyard.spec.values.code import place_of

TOKEN, SSH = GitKey.Kind.TOKEN, GitKey.Kind.SSH
PRIVATE = "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n-----END OPENSSH PRIVATE KEY-----"


def add(cast: Cast, place: str, kind: GitKey.Kind = TOKEN) -> GitKey:
    secret = PRIVATE if kind == SSH else "tok"
    return actions.add_git_key(actor=cast.owner, project=cast.project, kind=kind, place=place, secret=secret)


@pytest.mark.parametrize(
    ("place", "url", "is_given"),
    [
        ("git.example", "https://git.example/team/code", True),
        ("https://git.example:443", "https://git.example/team/code.git", True),
        ("git.example", "https://git.example:443/team/code", True),
        ("git.example", "https://git.example:8443/team/code", False),
        ("git.example:8443", "https://git.example:8443/team/code", True),
        ("git.example:8443", "https://git.example/team/code", False),
        ("git.example", "http://git.example/team/code", False),
        ("http://git.example", "http://git.example/team/code", True),
        ("git.example:80", "http://git.example/team/code", True),
        ("http://git.example:3000/team", "http://git.example:3000/team/code", True),
        ("http://git.example:3000/team", "http://git.example:3000/other/code", False),
        ("git.example/team", "https://git.example/teammate/code", False),
        ("git.example", "https://git.example.evil.example/team/code", False),
    ],
)
def test_a_token_goes_to_the_server_port_and_path_that_it_is_for(
    cast: Cast, place: str, url: str, is_given: bool
) -> None:
    key = add(cast, place)
    assert key_for(cast.project, place_of(url)) == (key if is_given else None)


def test_an_ssh_key_goes_to_any_port_for_it_is_not_sent(cast: Cast) -> None:
    key = add(cast, "git.example:2222", SSH)
    assert key.place == "git.example"
    assert key_for(cast.project, place_of("ssh://git@git.example:2222/team/code")) == key
