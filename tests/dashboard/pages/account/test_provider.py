"""The whole way through a real identity provider: there, its own pages, back, and later whether the person may stay."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from django.test import Client
from django.utils import timezone

from runs.models import BrowserSession, Identity, ProviderSession, User
from runs.people.identity.checking import check_due
from runs.people.identity.providers import SignInSettings, read_settings
from tests.cast import Cast
from tests.dashboard.pages.account.test_security import set_up
from tests.identity_providers import CLIENT_SECRET, IdentityProvider, identity_provider

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.extended]
BACK = "http://testserver/sign-in/with/corp/back/"


@pytest.fixture(scope="module")
def running() -> Iterator[IdentityProvider]:
    with identity_provider(BACK) as one:
        yield one


@pytest.fixture
def corp(
    running: IdentityProvider, cast: Cast, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> IdentityProvider:
    monkeypatch.setenv("CORP_SECRET", CLIENT_SECRET)
    settings.ALLOWED_HOSTS = ["testserver"]
    configure(running, tmp_path, settings)
    return running


def configure(running: IdentityProvider, folder: Path, settings: Any, **changes: Any) -> SignInSettings:
    path = folder / "sign_in.toml"
    path.write_text(running.settings(**changes))
    settings.SIGN_IN = read_settings(path, must_exist=True)
    found: SignInSettings = settings.SIGN_IN
    return found


def leave_for(client: Client, query: str = "") -> str:
    answer = client.get(f"/sign-in/with/corp/{query}")
    assert answer.status_code == 302, answer.content
    return str(answer["Location"])


def at_provider(url: str, name: str) -> str:
    """Sign in on the provider's pages, as a browser does; return where it sends the browser then."""
    with httpx.Client() as browser:
        answer = browser.get(url)
        for _ in range(20):
            if answer.is_redirect:
                place = str(answer.next_request.url) if answer.next_request else ""
                if place.startswith(BACK):
                    return place
                answer = browser.get(place)
                continue
            action = re.search(r'action="([^"]+)"', answer.text)
            prompt = re.search(r'name="prompt" value="(\w+)"', answer.text)
            assert action and prompt, answer.text
            form = {"prompt": prompt[1], "login": name, "password": "anything"}
            answer = browser.post(str(answer.url.join(action[1])), data=form)
    raise AssertionError("the provider sends the browser in circles")


def back(client: Client, place: str) -> Any:
    parts = urlsplit(place)
    return client.get(f"{parts.path}?{parts.query}")


def come_in(client: Client, name: str, query: str = "") -> Any:
    return back(client, at_provider(leave_for(client, query), name))


def test_a_person_comes_in_and_stays_until_the_provider_removes_them(
    corp: IdentityProvider, caplog: pytest.LogCaptureFixture
) -> None:
    corp.put("ann", email="ann@example.com", email_verified=True, preferred_username="ann", given_name="Ann")
    client = Client()
    place = at_provider(leave_for(client, "?next=/runs/"), "ann")
    assert back(client, place)["Location"] == "/runs/"
    assert client.get("/runs/").status_code == 200
    user = User.objects.get(username="ann")
    row = BrowserSession.objects.get(user=user)
    assert (row.method, user.first_name, user.email) == ("corp", "Ann", "ann@example.com")
    locked = ProviderSession.objects.get(session=row).locked
    for late in (1, 2):  # the tokens are renewed each time
        assert check_due(timezone.now() + late * timedelta(seconds=60)) == 1
        assert client.get("/runs/").status_code == 200
        assert ProviderSession.objects.get(session=row).locked != locked
    corp.remove("ann")
    check_due(timezone.now() + timedelta(seconds=180))
    assert client.get("/runs/").status_code == 302 and not BrowserSession.objects.exists()
    assert CLIENT_SECRET not in caplog.text


def test_the_answer_counts_once_and_in_the_browser_that_asked(corp: IdentityProvider) -> None:
    corp.put("ben", preferred_username="ben")
    client, other = Client(), Client()
    place = at_provider(leave_for(client), "ben")
    assert back(other, place).status_code == 401 and "_auth_user_id" not in other.session
    assert back(client, place).status_code == 302
    client.post("/sign-out/")
    assert back(client, place).status_code == 401 and "_auth_user_id" not in client.session


def test_whoever_breaks_it_off_is_asked_to_begin_again(corp: IdentityProvider) -> None:
    client = Client()
    state = re.search(r"state=([^&]+)", leave_for(client))
    assert state
    answer = back(client, f"{BACK}?error=access_denied&state={state[1]}")
    assert answer.status_code == 401 and "broke off" in answer.content.decode()


def test_nobody_is_made_where_the_settings_say_so(corp: IdentityProvider, tmp_path: Path, settings: Any) -> None:
    configure(corp, tmp_path, settings, create_people=False)
    corp.put("carl", preferred_username="carl")
    client = Client()
    answer = come_in(client, "carl")
    assert answer.status_code == 403 and "Ask for an invitation" in answer.content.decode()
    assert "_auth_user_id" not in client.session and not Identity.objects.exists()


def test_a_person_connects_an_account_and_comes_in_by_it(
    corp: IdentityProvider, cast: Cast, tmp_path: Path, settings: Any
) -> None:
    configure(corp, tmp_path, settings, create_people=False)
    corp.put("matt", preferred_username="matt")
    client = Client()
    client.force_login(cast.mate)
    link = re.search(r"[?]connect=\w+", client.get("/account/security/").content.decode())
    assert link and come_in(client, "matt", link[0])["Location"] == "/account/security/"
    elsewhere = Client()
    assert come_in(elsewhere, "matt").status_code == 302
    assert elsewhere.session["_auth_user_id"] == str(cast.mate.pk)


@pytest.mark.parametrize("is_enough", [False, True])
def test_a_second_factor_is_asked_for_unless_the_provider_did(
    corp: IdentityProvider, cast: Cast, tmp_path: Path, settings: Any, is_enough: bool
) -> None:
    corp.put("dora", preferred_username="dora")
    first = Client()
    come_in(first, "dora")
    _, codes = set_up(first)
    configure(corp, tmp_path, settings, second_factor=is_enough)
    client = Client()
    came = come_in(client, "dora")
    assert came["Location"] == ("/" if is_enough else "/sign-in/second/")
    if not is_enough:
        assert client.get("/runs/").status_code == 302
        assert client.post("/sign-in/second/", {"code": codes[0]})["Location"] == "/"
    assert client.get("/runs/").status_code == 200
    assert ProviderSession.objects.filter(session__user__username="dora").count() == 2


def test_a_provider_that_does_not_answer_is_named(cast: Cast, settings: Any, tmp_path: Path) -> None:
    configure(IdentityProvider("http://127.0.0.1:9"), tmp_path, settings)
    answer = Client().get("/sign-in/with/corp/")
    assert answer.status_code == 503 and "Example Corp does not answer now" in answer.content.decode()
    assert "Sign in with Example Corp" in Client().get("/sign-in/").content.decode()
