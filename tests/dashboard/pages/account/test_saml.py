"""Sign-in by SAML on the pages: there and back, and what an attacker tries with a genuine answer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from runs.models import AuditEntry, Identity, Membership, ProviderSession, User
from runs.people.identity.providers import GroupRoleSetting, Provider, SignInSettings
from tests.cast import Cast
from tests.dashboard.pages.account.test_security import AsUser, is_in
from tests.saml_answers import assertion, response, saml_provider, sent, signed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey")]
PATH = "/sign-in/with/corp/"
ROLE = GroupRoleSetting(group="ml", project="default", role="viewer")


@pytest.fixture(autouse=True)
def corp(settings: Any, tmp_path: Path) -> Provider:
    one = saml_provider(tmp_path, roles=(ROLE,))
    settings.SIGN_IN = SignInSettings(providers=(one,))
    settings.PUBLIC_URL = "http://testserver"
    return one


def lead(client: Client, query: str = "") -> str:
    """Go to the provider; return the id of the request."""
    assert client.get(f"{PATH}{query}")["Location"].startswith("https://id.example.com/saml/sign-on?")
    return list(client.session["saml-requests"])[-1]


def answer_to(request: str, **changes: Any) -> str:
    back = f"http://testserver{PATH}assertion/"
    facts = {"back": back, "audience": f"http://testserver{PATH}metadata/", "request": request, "id": f"_{request}"}
    return sent(response(signed(assertion(**{**facts, **changes})), back=back, request=request))


def post(client: Client, answer: str, **more: str) -> Any:
    """As the provider's page posts it: across sites, so that no cookie of a session goes along."""
    outside = Client()
    posted = outside.post(f"{PATH}assertion/", {"SAMLResponse": answer, **more})
    if posted.status_code == 303:
        client.cookies["trainyard-saml"] = outside.cookies["trainyard-saml"].value
    return posted


def come_back(client: Client) -> Any:
    return client.get(f"{PATH}assertion/")


def refusal(answer: Any) -> str:
    found = re.search(r'role="alert">.*?<div>(.*?)</div>', answer.content.decode(), re.DOTALL)
    assert found, answer.status_code
    return found[1]


def test_a_person_comes_in_with_the_roles_of_their_groups(cast: Cast) -> None:
    client = Client()
    request = lead(client, "?next=/runs/")
    posted = post(client, answer_to(request), RelayState="https://evil.example.com/")
    assert (posted.status_code, posted["Location"]) == (303, f"{PATH}assertion/")
    assert come_back(client)["Location"] == "/runs/" and is_in(client)
    user = User.objects.get(identities__subject="ann-7")
    assert [group.name for group in user.groups.all()] == ["corp: ml"] and not Membership.objects.filter(user=user)
    assert ProviderSession.objects.get().locked == ""
    assert AuditEntry.objects.filter(action="sign-in", actor=user.username, result="ok").exists()


def test_an_answer_is_taken_once_and_in_the_browser_that_asked(cast: Cast) -> None:
    client, thief = Client(), Client()
    answer = answer_to(lead(client))
    lead(thief)
    assert post(thief, answer).status_code == 303  # who has stolen it is first, in a browser that did not ask
    assert come_back(thief).status_code == 401 and not is_in(thief)
    assert "used already" in refusal(post(client, answer))
    fresh = lead(client)
    post(client, answer_to(fresh))
    assert come_back(client).status_code == 302 and is_in(client)
    again = Client()
    again.cookies["trainyard-saml"] = client.cookies["trainyard-saml"].value
    assert come_back(again).status_code == 401 and not is_in(again)
    assert not Identity.objects.exclude(subject="ann-7").exists()


def test_a_forged_answer_is_refused_with_a_sentence_and_recorded(cast: Cast) -> None:
    client = Client()
    request = lead(client)
    refused = post(client, answer_to(request, audience="https://other.example.com"))
    assert refused.status_code == 403 and "it is for another site" in refusal(refused)
    assert AuditEntry.objects.latest("sequence").result.startswith("refused: The answer of the provider")
    client.cookies["trainyard-saml"] = "forged"
    assert come_back(client).status_code == 401 and not is_in(client)


def test_a_next_page_elsewhere_is_not_gone_to(cast: Cast) -> None:
    client = Client()
    post(client, answer_to(lead(client, "?next=https://evil.example.com/")))
    assert come_back(client)["Location"] == "/"


def test_a_signed_in_person_connects_the_account(as_user: AsUser, cast: Cast) -> None:
    client = as_user(cast.mate)
    assert client.get(f"{PATH}?connect=yes")["Location"] == "/account/security/", "a link of another site"
    link = re.search(r"[?]connect=\w+", client.get("/account/security/").content.decode())
    assert link
    post(client, answer_to(lead(client, link[0])))
    assert come_back(client)["Location"] == "/account/security/"
    assert Identity.objects.get(subject="ann-7").user == cast.mate


def test_the_ways_of_the_two_protocols_are_apart(cast: Cast) -> None:
    assert Client().get(f"{PATH}back/").status_code == 404
    found = Client().get(f"{PATH}metadata/")
    assert found.status_code == 200 and b"AssertionConsumerService" in found.content
