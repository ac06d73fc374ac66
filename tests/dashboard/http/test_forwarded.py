"""A forged address counts for nothing: who says for whom they speak is a proxy of ours, and no rank on this machine."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from http import HTTPStatus

import httpx
import pytest

from dashboard.http.hosts import proxy_users
from tests.dashboard.http.test_own_clients import NOBODY, ask, connection, has_tables, is_root
from tests.servers import short_folder
from tests.up_process import Up, new_home

PROXY = 4242


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    with short_folder("ty-forwarded-") as folder:
        one = Up(new_home(folder), FORWARDED_ALLOW_USERS=f"root, {PROXY}")
        try:
            yield one.wait_until_ready()
        finally:
            one.close()


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


def test_users_are_given_by_name_or_number() -> None:
    assert proxy_users(f"root, {PROXY}") == {0, PROXY} and proxy_users("") == frozenset()
    with pytest.raises(ValueError, match="FORWARDED_ALLOW_USERS names 'no-such-user'"):
        proxy_users("no-such-user")
