"""Second factors and sessions, on the pages and for tokens."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from django.core.cache import cache
from django.test import Client
from limits import parse_many

from dashboard.http.credentials import Credential, users_of
from runs.actions import create_token, make_sign_in_link
from runs.models import AuditEntry, BrowserSession, Project, User
from runs.people.identity.providers import SignInSettings
from runs.people.identity.sessions import end_sessions
from runs.serving import login_limits
from tests.cast import Cast

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey")]
AsUser = Callable[[User], Client]
SCRIPT = {"X-Requested-With": "fetch"}


def code_of(secret: str, ahead: int = 0) -> str:
    return format_hotp_value(hotp_value(secret, int(time.time()) // 30 + ahead))


def make_stale(client: Client) -> None:
    """Have the person's last proof of who they are lie too far back."""
    session = client.session
    session["confirmed-at"] = time.time() - 3600
    session.save()


def set_up(client: Client) -> tuple[str, list[str]]:
    """Set an authenticator app up; return its secret and the recovery codes."""
    return set_up_with_code(client)[:2]


def set_up_with_code(client: Client) -> tuple[str, list[str], str]:
    """The same, with the code that set it up."""
    page = client.get("/account/security/app/").content.decode()
    assert "data:image/svg+xml;base64," in page
    secret = re.search(r"([A-Z2-7]{4}( [A-Z2-7]{4}){7})", page)
    assert secret
    bare = secret[0].replace(" ", "")
    code = code_of(bare)
    answer = client.post("/account/security/app/", {"code": code})
    codes = re.findall(r"<code>(\d{4}-\d{4})</code>", answer.content.decode())
    assert len(codes) == 10
    return bare, codes, code


def come(client: Client, user: User) -> Any:
    return client.get(f"/sign-in/{make_sign_in_link(user=user)}/?next=/runs/")


def is_in(client: Client) -> bool:
    return client.get("/runs/").status_code == 200


def test_a_second_factor_is_asked_for_and_a_code_is_taken_once(as_user: AsUser, cast: Cast) -> None:
    secret, codes, set_up_by = set_up_with_code(as_user(cast.mate))
    client = Client()
    assert come(client, cast.mate)["Location"] == "/sign-in/second/" and not is_in(client)
    assert client.post("/sign-in/second/", {"code": "000000"}).status_code == 422 and not is_in(client)
    used = client.post("/sign-in/second/", {"code": set_up_by})
    assert used.status_code == 422, "whoever saw the code that set the app up does not come in by it"
    code = code_of(secret, 1)
    assert client.post("/sign-in/second/", {"code": code})["Location"] == "/runs/" and is_in(client)
    again = Client()
    come(again, cast.mate)
    cache.clear()  # another web process
    assert again.post("/sign-in/second/", {"code": code}).status_code == 422
    assert again.post("/sign-in/second/", {"code": codes[3]}).status_code == 302 and is_in(again)
    third = Client()
    come(third, cast.mate)
    assert third.post("/sign-in/second/", {"code": codes[3]}).status_code == 422


def test_the_audit_names_who_gave_only_the_first_factor(as_user: AsUser, cast: Cast) -> None:
    set_up(as_user(cast.mate))
    come(Client(), cast.mate)
    row = AuditEntry.objects.latest("sequence")
    assert (row.actor, row.action, row.object) == (
        cast.mate.username, "sign-in.first-factor", f"user {cast.mate.username}"
    )  # fmt: skip


def test_secrets_of_factors_are_locked_at_rest(as_user: AsUser, cast: Cast) -> None:
    secret, codes = set_up(as_user(cast.mate))
    stored = str(list(Authenticator.objects.values_list("data", flat=True)))
    assert secret not in stored and codes[0].replace("-", "") not in stored


def test_guesses_of_a_code_meet_a_pause(as_user: AsUser, cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    secret, _ = set_up(as_user(cast.mate))
    monkeypatch.setattr(login_limits, "BY_ACCOUNT", parse_many("2/minute"))
    client = Client()
    come(client, cast.mate)
    guesses = [client.post("/sign-in/second/", {"code": f"00000{n}"}).status_code for n in range(3)]
    assert guesses == [422, 422, 429]
    paused = client.post("/sign-in/second/", {"code": code_of(secret)})
    assert paused.status_code == 429 and int(paused["Retry-After"]) > 0 and not is_in(client)


def test_nobody_gives_a_second_factor_before_the_first(cast: Cast) -> None:
    client = Client()
    assert client.get("/sign-in/second/")["Location"] == "/sign-in/"
    assert client.post("/sign-in/second/", {"code": "000000"})["Location"] == "/sign-in/"


def test_a_page_that_is_open_says_that_the_second_factor_comes_next(as_user: AsUser, cast: Cast) -> None:
    set_up(as_user(cast.mate))
    cast.mate.set_password("correct horse battery")
    cast.mate.save()
    form = {"username": "mate", "password": "correct horse battery"}
    answer = Client().post("/sign-in/", form, headers=SCRIPT)
    assert answer.status_code == 422 and "second factor" in answer.json()["sentence"]


def test_a_change_of_factors_asks_who_it_is_again(as_user: AsUser, cast: Cast) -> None:
    client = as_user(cast.mate)
    secret, _ = set_up(client)
    factor = Authenticator.objects.get(type=Authenticator.Type.TOTP)
    url = f"/account/security/factors/{factor.pk}/remove/"
    make_stale(client)
    assert client.post(url)["Location"].startswith("/sign-in/second/")
    assert Authenticator.objects.filter(pk=factor.pk).exists()
    proved = client.post("/sign-in/second/?next=/account/security/", {"code": code_of(secret, 1)})
    assert proved["Location"] == "/account/security/"
    assert client.post(url)["Location"] == "/account/security/"
    assert not Authenticator.objects.filter(user=cast.mate).exists(), "the recovery codes too"
    assert as_user(cast.owner).post(url).status_code == 404


@pytest.mark.parametrize("asks", ["site", "project"])
def test_whoever_needs_a_second_factor_gets_nowhere_without_one(
    as_user: AsUser, cast: Cast, settings: Any, asks: str
) -> None:
    _, secret = create_token(actor=cast.owner, name="x")
    client, bearer = as_user(cast.owner), {"Authorization": f"Bearer {secret}"}
    assert is_in(client) and Client().get("/api/v1/runs", headers=bearer).status_code == 200
    if asks == "site":
        settings.SIGN_IN = SignInSettings(second_factor="staff")
    else:
        form = {"second_factor_from": "member"}
        assert client.post("/people/default/second-factor/", form).status_code == 302
        assert is_in(as_user(cast.viewer)) and not is_in(as_user(cast.mate))
    for path in ("/runs/", "/admin/", "/account/", "/people/"):
        assert client.get(path)["Location"] == "/account/security/"
    assert client.get("/api/v1/runs").status_code == 403
    assert "second factor" in client.post("/account/tokens/", headers=SCRIPT).json()["sentence"]
    refused = Client().get("/api/v1/runs", headers=bearer)
    assert refused.status_code == 403 and "second factor" in refused.json()["detail"]
    assert "You need a second factor here." in client.get("/account/security/").content.decode()
    set_up(client)
    assert is_in(client) and Client().get("/api/v1/runs", headers=bearer).status_code == 200


def test_a_second_factor_is_asked_of_a_role_that_there_is(as_user: AsUser, cast: Cast) -> None:
    refused = as_user(cast.owner).post("/people/default/second-factor/", {"second_factor_from": "king"})
    assert refused.status_code == 409 and Project.objects.get().second_factor_from == ""


def test_sessions_are_listed_and_ended_one_by_one(as_user: AsUser, cast: Cast) -> None:
    here, there = as_user(cast.mate), as_user(cast.mate)
    phone = "Mozilla/5.0 (Linux; Android 15) AppleWebKit/537.36 Chrome/140.0 Mobile Safari/537.36"
    come(third := Client(headers={"User-Agent": phone}, REMOTE_ADDR="192.0.2.7"), cast.mate)
    page = here.get("/account/security/").content.decode()
    assert page.count("data-key=") == 3 and page.count("(this one)") == 1
    assert "Chrome on Android" in page and "from 192.0.2.7" in page and "by a link" in page
    row = BrowserSession.objects.get(address="192.0.2.7")
    assert as_user(cast.viewer).post(f"/account/security/sessions/{row.pk}/end/").status_code == 404
    assert is_in(third)
    here.post(f"/account/security/sessions/{row.pk}/end/")
    assert not is_in(third) and is_in(there) and is_in(here)
    here.post("/account/security/sessions/end-others/")
    assert not is_in(there) and is_in(here)
    assert BrowserSession.objects.filter(user=cast.mate).count() == 1


def test_the_sockets_of_an_ended_session_are_nobodys(as_user: AsUser, cast: Cast) -> None:
    client = as_user(cast.mate)
    key = Credential(client.session.session_key or "", is_token=False)
    assert users_of([key]) == {key: cast.mate}
    end_sessions(cast.mate)
    assert users_of([key]) == {}


def test_a_new_password_ends_the_other_sessions_and_keeps_the_row_of_this_one(as_user: AsUser, cast: Cast) -> None:
    client, _ = as_user(cast.mate), as_user(cast.mate)
    client.post("/account/password/", {"password": "correct horse battery"})
    row = BrowserSession.objects.get(user=cast.mate)
    assert row.session_key == client.session.session_key


def test_signing_out_forgets_the_session(as_user: AsUser, cast: Cast) -> None:
    client = as_user(cast.mate)
    client.post("/sign-out/")
    assert not BrowserSession.objects.filter(user=cast.mate).exists()
