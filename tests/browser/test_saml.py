"""Sign-in by SAML through a real identity provider, in Chromium, and answers that were changed on their way."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import parse_qs, urlencode

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.conftest import PATIENCE_MS, new_context
from tests.identity_providers import ROLE, SamlProvider, free_port, saml_identity_provider
from tests.saml_answers import signed
from tests.servers import short_folder
from tests.up_process import Up, new_home

pytestmark = pytest.mark.extended
ASSERTION = re.compile(r"<saml:Assertion.*</saml:Assertion>", re.DOTALL)
SIGNATURE = re.compile(r"<ds:Signature.*</ds:Signature>", re.DOTALL)


class Site(NamedTuple):
    """A Trainyard that trusts a provider."""

    url: str
    corp: SamlProvider


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    expect.set_options(timeout=PATIENCE_MS)
    port = free_port()
    url = f"http://localhost:{port}"
    with (
        short_folder("ty-saml-") as folder,
        saml_identity_provider(folder, f"{url}/sign-in/with/corp/metadata/") as corp,
    ):
        home = new_home(folder)
        (home / "sign_in.toml").write_text(corp.settings() + ROLE)
        up = Up(home, PORT=str(port), PUBLIC_URL=url)
        try:
            up.wait_until_ready()
            yield Site(url, corp)
        finally:
            up.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = new_context(browser)
    yield context.new_page()
    context.close()


def come_in(site: Site, page: Page, name: str, *groups: str) -> None:
    """Sign in by the button, on the page of the provider, which posts its signed answer to the site."""
    site.corp.put(name, email=f"{name}@example.com", givenName=name.title(), sn="Archer", groups=list(groups))
    page.goto(f"{site.url}/sign-in/")
    page.get_by_role("link", name="Sign in with Example Corp").click()
    page.get_by_placeholder("Name").fill(name)
    page.get_by_role("button", name="Sign in at Example Corp").click()


def test_a_person_of_the_provider_comes_in_with_the_roles_of_their_groups(site: Site, page: Page) -> None:
    come_in(site, page, "ann", "guests", "ml")
    expect(page).to_have_url(f"{site.url}/")
    page.goto(f"{site.url}/people/")
    expect(page.get_by_role("heading", level=1)).to_have_text("People of default")
    page.goto(f"{site.url}/account/security/")
    expect(page.get_by_role("main")).to_contain_text("through Example Corp")


def test_whoever_is_in_no_group_of_the_settings_has_no_role(site: Site, page: Page) -> None:
    come_in(site, page, "bob", "guests")
    expect(page).to_have_url(f"{site.url}/")
    assert page.goto(f"{site.url}/people/")
    expect(page.get_by_role("main")).not_to_contain_text("People of default")


def with_another_group(answer: str) -> str:
    changed = answer.replace(">guests<", ">ml<")
    assert changed != answer
    return changed


def signed_by_somebody_else(answer: str) -> str:
    """Return the answer with what the person likes to be in it, signed with a key of their own."""
    inside = ASSERTION.search(answer)
    assert inside is not None
    forged = signed(SIGNATURE.sub("", with_another_group(inside[0])), by="mallory")
    return answer.replace(inside[0], forged.removeprefix('<?xml version="1.0"?>').strip())


def without_signature(answer: str) -> str:
    return SIGNATURE.sub("", with_another_group(answer))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (with_another_group, "its signature does not fit it"),
        (signed_by_somebody_else, "its signature does not fit it"),
        (without_signature, "its assertion is not signed"),
    ],
)
def test_an_answer_that_was_changed_on_its_way_lets_nobody_in(
    site: Site, page: Page, change: Callable[[str], str], why: str
) -> None:
    sent = []

    def alter(route: Route) -> None:
        answer = base64.b64decode(parse_qs(route.request.post_data or "")["SAMLResponse"][0]).decode()
        sent.append(change(answer))
        route.continue_(post_data=urlencode({"SAMLResponse": base64.b64encode(sent[0].encode()).decode()}))

    page.route("**/sign-in/with/corp/assertion/", alter, times=1)
    come_in(site, page, "mallory", "guests")
    expect(page.get_by_role("alert")).to_have_text(f"The answer of the provider is not accepted: {why}.")
    assert len(sent) == 1
    page.goto(f"{site.url}/")
    expect(page).to_have_url(re.compile("/sign-in/"))
