from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from limits import parse_many

from runs.actions import make_sign_in_link
from runs.models import User
from runs.serving import login_limits as guessing
from runs.serving import password_hashing as hashing
from tests.cast import Cast
from tests.servers import Valkey
from tests.up_process import ROOT

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("anybody", "valkey")]


def is_signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def test_a_link_signs_in_and_leads_to_where_it_says(cast: Cast, anybody: Client) -> None:
    answer = anybody.get(f"/sign-in/{make_sign_in_link(user=cast.mate)}/?next=/runs/")
    assert (answer.status_code, answer["Location"]) == (302, "/runs/")
    assert answer["Referrer-Policy"] == "no-referrer"
    assert is_signed_in(anybody)


def test_a_link_works_once(cast: Cast, anybody: Client) -> None:
    url = f"/sign-in/{make_sign_in_link(user=cast.mate)}/"
    Client().get(url)
    answer = anybody.get(url)
    assert answer.status_code == 410
    assert "trainyard sign-in-link" in answer.content.decode()
    assert not is_signed_in(anybody)


def test_a_look_with_head_does_not_use_the_link_up(cast: Cast, anybody: Client) -> None:
    url = f"/sign-in/{make_sign_in_link(user=cast.mate)}/"
    anybody.head(url)
    anybody.get(url)
    assert is_signed_in(anybody)


def test_a_link_does_not_lead_to_another_site(cast: Cast, anybody: Client) -> None:
    answer = anybody.get(f"/sign-in/{make_sign_in_link(user=cast.mate)}/?next=https://elsewhere.example/")
    assert answer["Location"] == "/"


def test_a_secret_that_nobody_made_is_refused(anybody: Client, cast: Cast) -> None:
    assert anybody.get("/sign-in/guess/").status_code == 410


def test_a_password_signs_in(cast: Cast, anybody: Client) -> None:
    cast.mate.set_password("correct horse battery")
    cast.mate.save()
    answer = anybody.post("/sign-in/", {"username": "mate", "password": "correct horse battery", "next": "/runs/"})
    assert answer["Location"] == "/runs/"
    assert is_signed_in(anybody)


def test_a_wrong_password_is_refused_without_saying_who_exists(cast: Cast, anybody: Client) -> None:
    known = anybody.post("/sign-in/", {"username": "mate", "password": "guess"})
    unknown = anybody.post("/sign-in/", {"username": "nobody", "password": "guess"})
    assert known.status_code == unknown.status_code == 422
    sentence = "No account has this name and this password."
    assert sentence in known.content.decode()
    assert sentence in unknown.content.decode()


def test_a_person_without_a_password_cannot_sign_in_by_an_empty_one(cast: Cast, anybody: Client) -> None:
    assert anybody.post("/sign-in/", {"username": "mate", "password": ""}).status_code == 422


def test_signing_out_ends_the_session(cast: Cast, anybody: Client) -> None:
    anybody.force_login(cast.mate)
    assert anybody.post("/sign-out/")["Location"] == "/sign-in/"
    assert not is_signed_in(anybody)


def test_a_link_elsewhere_cannot_sign_a_person_out(cast: Cast, anybody: Client) -> None:
    anybody.force_login(cast.mate)
    assert anybody.get("/sign-out/").status_code == 405
    assert is_signed_in(anybody)


PASSWORD = "correct horse battery"


@pytest.fixture
def mate(cast: Cast, valkey: Valkey) -> User:
    cast.mate.set_password(PASSWORD)
    cast.mate.save()
    return cast.mate


def guess(client: Client, password: str = "guess", **more: Any) -> Any:
    return client.post("/sign-in/", {"username": "mate", "password": password}, **more)


def test_wrong_passwords_in_a_row_meet_a_pause_that_says_how_long_it_is(mate: User, anybody: Client) -> None:
    statuses = [guess(anybody).status_code for _ in range(12)]
    assert statuses == [422] * 5 + [429] * 7
    answer = guess(anybody, PASSWORD)
    assert answer.status_code == 429 and not is_signed_in(anybody)
    assert 0 < int(answer["Retry-After"]) <= 60
    assert f"Try again in {answer['Retry-After']} seconds." in answer.content.decode()


def test_the_right_password_works_after_the_pause(mate: User, anybody: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guessing, "BY_ACCOUNT", parse_many("2/3 seconds"))
    assert [guess(anybody).status_code for _ in range(2)] == [422, 422]
    paused = guess(anybody)
    assert paused.status_code == 429
    time.sleep(int(paused["Retry-After"]) + 0.1)
    assert guess(anybody, PASSWORD).status_code == 302 and is_signed_in(anybody)


def test_a_pause_says_nothing_of_who_exists(mate: User, anybody: Client) -> None:
    answers = [anybody.post("/sign-in/", {"username": "nobody", "password": "guess"}) for _ in range(6)]
    assert [one.status_code for one in answers] == [422] * 5 + [429]


def test_a_browser_that_signed_in_before_is_not_kept_out_by_others(mate: User, anybody: Client) -> None:
    guess(anybody, PASSWORD)
    anybody.post("/sign-out/")
    for number in range(12):
        guess(Client(), REMOTE_ADDR=f"192.0.2.{number}")
    assert guess(Client(), PASSWORD, REMOTE_ADDR="198.51.100.1").status_code == 429
    assert guess(anybody, PASSWORD).status_code == 302


def test_a_link_signs_in_during_a_pause_and_its_browser_is_known_from_then_on(mate: User, anybody: Client) -> None:
    for _ in range(8):
        guess(Client())
    anybody.get(f"/sign-in/{make_sign_in_link(user=mate)}/")
    assert is_signed_in(anybody)
    anybody.post("/sign-out/")
    assert guess(anybody, PASSWORD).status_code == 302


def test_the_cookie_of_a_known_browser_cannot_be_made_up(mate: User, anybody: Client) -> None:
    for _ in range(8):
        guess(Client())
    anybody.cookies["trainyard-browser-8000"] = '["mate","x"]'
    assert guess(anybody, PASSWORD).status_code == 429


def test_webs_with_ports_of_their_own_know_the_same_browsers(tmp_path: Path) -> None:
    program = """from dashboard.up.database import set_up_django
set_up_django()
from dashboard.pages.account.sign_in import NAME
print(NAME)"""
    names = {
        subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, text=True, check=True, capture_output=True, timeout=60,
            env={**os.environ, "PORT": port, "PUBLIC_URL": "https://a.example", "TRAINYARD_HOME": str(tmp_path)},
        ).stdout.strip()
        for port in ("8000", "8001")
    }  # fmt: skip
    assert names == {"trainyard-browser-443"}


def test_the_admin_checks_no_password_of_its_own(mate: User, anybody: Client, cast: Cast) -> None:
    answer = anybody.post("/admin/login/?next=/admin/runs/", {"username": "mate", "password": PASSWORD})
    assert answer.status_code == 405 or not is_signed_in(anybody)
    assert anybody.get("/admin/runs/user/")["Location"].startswith("/admin/login/")
    answer = anybody.get("/admin/login/?next=/admin/runs/user/")
    assert answer["Location"] == "/sign-in/?next=%2Fadmin%2Fruns%2Fuser%2F"
    anybody.force_login(cast.mate)
    assert anybody.get("/admin/login/?next=/admin/").status_code == 403  # and not a circle of redirects
    anybody.force_login(cast.owner)
    assert anybody.get("/admin/login/?next=/admin/runs/")["Location"] == "/admin/runs/"
    assert anybody.get("/admin/password_change/")["Location"] == "/account/"


def test_guesses_of_the_present_password_meet_a_pause_too(mate: User, anybody: Client) -> None:
    anybody.force_login(mate)
    form = {"password": "another long one", "current": "guess"}
    answers = [anybody.post("/account/password/", form) for _ in range(7)]
    assert b"This is not your password." in answers[4].content and b"Too many attempts" in answers[5].content
    assert b"Too many attempts" in anybody.post("/account/password/", {**form, "current": PASSWORD}).content


def test_when_too_many_passwords_are_being_checked_it_says_so(
    mate: User, anybody: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashing, "_places", threading.BoundedSemaphore(1))
    with hashing._places:
        answer = guess(anybody)
    assert answer.status_code == 503 and "Try again in a few seconds." in answer.content.decode()


SCRIPT = {"X-Requested-With": "fetch"}


def test_a_page_that_is_open_learns_that_nobody_is_signed_in(mate: User, anybody: Client) -> None:
    answer = anybody.get("/sign-in/", headers=SCRIPT)
    assert answer.status_code == 401 and answer.json()["csrf"] and "signed out" in answer.json()["sentence"]


def test_a_page_that_is_open_signs_in_without_leaving(mate: User) -> None:
    client = Client(enforce_csrf_checks=True)
    token = client.get("/sign-in/", headers=SCRIPT).json()["csrf"]
    form = {"username": "mate", "password": "guess"}
    refused = client.post("/sign-in/", form, headers={**SCRIPT, "X-CSRFToken": token})
    assert refused.status_code == 422 and refused.json()["sentence"].startswith("No account")
    answer = client.post("/sign-in/", {**form, "password": PASSWORD}, headers={**SCRIPT, "X-CSRFToken": token})
    assert answer.status_code == 200 and answer.json()["username"] == "mate"
    assert answer["Cache-Control"] == "no-store"
    token = answer.json()["csrf"]
    assert client.get("/sign-in/", headers=SCRIPT).json()["username"] == "mate"
    posted = client.post("/account/tokens/revoke/", headers={**SCRIPT, "X-CSRFToken": token})
    assert posted.status_code == 200, "the page's next form has a token that fits"
