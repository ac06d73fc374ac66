"""The host names of apps."""

from __future__ import annotations

import pytest

from dashboard.http.hosts import proxy_origin
from runs.interactive.addresses import App, ProxyOrigin

APP = App("abc2", 0, 6006)


def test_each_port_of_a_run_has_an_origin_of_its_own() -> None:
    origin = ProxyOrigin.parse("https://*.apps.example.org")
    assert origin.origin_of(APP) == "https://abc2-0-6006.apps.example.org"
    assert origin.app_at("abc2-0-6006.apps.example.org") == APP


@pytest.mark.parametrize(
    "host",
    [
        "",
        "apps.example.org",
        "abc2-0-6006.apps.example.org.evil.example",
        "abc2-0-6006.apps.example.org:8001",
        "abc2-00-6006.apps.example.org",
        "abc2-0-66006.apps.example.org",
        "abc2-0-0.apps.example.org",
        "x.abc2-0-6006.apps.example.org",
        "127.0.0.1",
    ],
)
def test_another_host_is_no_app(host: str) -> None:
    assert ProxyOrigin.parse("https://*.apps.example.org").app_at(host) is None


@pytest.mark.parametrize("text", ["*.x", "ftp://*.x.org", "https://apps.x.org", "https://*.x.org/a", "https://*.*.org"])
def test_an_origin_that_is_none_is_refused_with_its_value(text: str) -> None:
    with pytest.raises(ValueError, match="TRAINYARD_PROXY_ORIGIN is"):
        proxy_origin(text, "https://train.example.org", "")


@pytest.mark.parametrize(
    ("origin", "site"),
    [
        ("https://*.train.example.org", "https://train.example.org"),
        ("https://*.example.org", "https://train.example.org"),
        ("https://*.a.train.example.org", "https://train.example.org"),
    ],
)
def test_a_domain_that_shares_cookies_with_the_site_is_refused(origin: str, site: str) -> None:
    with pytest.raises(ValueError, match=r"could set cookies for the site at train\.example\.org"):
        proxy_origin(origin, site, "")


def test_a_site_of_this_machine_needs_no_setting() -> None:
    assert proxy_origin("", "http://127.0.0.1:8000", "8001") == "http://*.localhost:8001"
    assert proxy_origin("", "http://train.example.org", "8001") == ""
    assert proxy_origin("", "https://127.0.0.1:8000", "8001") == ""
    assert proxy_origin("https://*.apps.example", "https://train.example.org", "") == "https://*.apps.example"
