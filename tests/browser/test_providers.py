"""Sign-in through a real identity provider, second factors and sessions, in Chromium."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import PATIENCE_MS, new_context, sign_in_link
from tests.identity_providers import CLIENT_SECRET, ROLE, IdentityProvider, free_port, identity_provider
from tests.servers import short_folder
from tests.up_process import Up, new_home

pytestmark = pytest.mark.extended


class Site(NamedTuple):
    """A Trainyard that trusts a provider."""

    up: Up
    url: str  # by a name: security keys know no addresses
    corp: IdentityProvider


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    expect.set_options(timeout=PATIENCE_MS)
    port = free_port()
    url = f"http://localhost:{port}"
    with short_folder("ty-sign-in-") as folder, identity_provider(f"{url}/sign-in/with/corp/back/") as corp:
        home = new_home(folder)
        home.mkdir(mode=0o700, exist_ok=True)
        (home / "sign_in.toml").write_text(corp.settings() + ROLE)
        up = Up(home, PORT=str(port), PUBLIC_URL=url, CORP_SECRET=CLIENT_SECRET)
        try:
            up.wait_until_ready()
            yield Site(up, url, corp)
            assert CLIENT_SECRET not in up.output
        finally:
            up.close()


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    context = new_context(browser)
    yield context.new_page()
    context.close()


def come_in(site: Site, page: Page, name: str, **claims: object) -> None:
    """Sign in at the provider, on its own pages."""
    site.corp.put(name, email=f"{name}@example.com", email_verified=True, preferred_username=name, **claims)
    page.goto(f"{site.url}/sign-in/")
    page.get_by_role("link", name="Sign in with Example Corp").click()
    page.get_by_placeholder("Enter any login").fill(name)
    page.get_by_placeholder("and password").fill("anything")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()


def test_a_person_of_the_provider_comes_in_with_the_roles_of_their_groups(site: Site, page: Page) -> None:
    come_in(site, page, "ann", given_name="Ann", family_name="Archer", groups=["ml"])
    expect(page).to_have_url(f"{site.url}/")
    page.goto(f"{site.url}/people/")
    expect(page.get_by_role("heading", level=1)).to_have_text("People of default")
    page.goto(f"{site.url}/account/security/")
    expect(page.get_by_role("main")).to_contain_text("through Example Corp")
    expect(page.get_by_role("main")).to_contain_text("(this one)")


def test_whoever_is_removed_at_the_provider_loses_the_live_page_within_a_minute(site: Site, page: Page) -> None:
    come_in(site, page, "bob")
    expect(page.get_by_role("status", name="How this page gets its news")).to_have_text("live")
    site.corp.remove("bob")
    removed_at = time.monotonic()
    expect(page.get_by_role("dialog", name="You are signed out")).to_be_visible(timeout=60_000)
    took_s = time.monotonic() - removed_at
    print(f"removed at the provider -> the live page is closed: {took_s:.1f} s")
    assert took_s < 60
    page.goto(f"{site.url}/")
    expect(page).to_have_url(re.compile("/sign-in/"))


def test_a_session_that_is_ended_elsewhere_closes_its_page_within_seconds(
    site: Site, page: Page, browser: Browser
) -> None:
    come_in(site, page, "cleo")
    expect(page.get_by_role("status", name="How this page gets its news")).to_have_text("live")
    other = new_context(browser)
    try:
        second = other.new_page()
        come_in(site, second, "cleo")
        second.goto(f"{site.url}/account/security/")
        second.get_by_role("button", name="Sign out all others").click()
        ended_at = time.monotonic()
        second.get_by_role("dialog").get_by_role("button", name="Sign out all others").click()
        expect(page.get_by_role("dialog", name="You are signed out")).to_be_visible(timeout=6_000)
        print(f"session ended -> its page is closed: {time.monotonic() - ended_at:.1f} s")
    finally:
        other.close()


def test_a_security_key_is_set_up_and_asked_for(site: Site, page: Page) -> None:
    come_in(site, page, "dora")
    protocol = page.context.new_cdp_session(page)
    protocol.send("WebAuthn.enable")
    key = {"protocol": "ctap2", "transport": "usb", "automaticPresenceSimulation": True}
    protocol.send("WebAuthn.addVirtualAuthenticator", {"options": {**key, "hasUserVerification": False}})
    page.goto(f"{site.url}/account/security/key/")
    page.get_by_label("Name", exact=True).fill("My key")
    page.get_by_role("button", name="Use the key").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Recovery codes")
    code = page.get_by_role("main").locator("code").first.inner_text()
    for answer in ("key", "code"):
        page.goto(f"{site.url}/account/")
        page.get_by_role("main").get_by_role("button", name="Sign out").click()
        page.get_by_role("link", name="Sign in with Example Corp").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Second factor")
        page.goto(f"{site.url}/runs/")
        expect(page).to_have_url(re.compile("/sign-in/"))  # not in yet
        page.goto(f"{site.url}/sign-in/second/")
        if answer == "key":
            page.get_by_role("button", name="Use your security key").click()
        else:
            page.get_by_label("Code", exact=True).fill(code)
            page.get_by_role("button", name="Go on").click()
        expect(page).to_have_url(f"{site.url}/")


def test_an_administrator_connects_an_account_and_comes_in_by_it(site: Site, page: Page) -> None:
    page.goto(sign_in_link(site.up).replace("127.0.0.1", "localhost"))
    page.goto(f"{site.url}/account/security/")
    site.corp.put("olga", preferred_username="olga")
    page.get_by_role("link", name="Connect").click()
    page.get_by_placeholder("Enter any login").fill("olga")
    page.get_by_placeholder("and password").fill("anything")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("main")).to_contain_text("Connected your account of Example Corp")
