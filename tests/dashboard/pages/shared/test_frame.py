from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory

from dashboard.frontend import icons
from dashboard.pages import urls
from dashboard.pages.shared.frame import safe_next
from runs.models import Run, User
from runs.values.status import Status
from tests.cast import Cast, make_run

pytestmark = pytest.mark.django_db
TEMPLATES = sorted((settings.BASE_DIR / "templates").rglob("*.html"))
AsUser = Callable[[User], Client]


def test_a_script_that_is_signed_out_gets_401(anybody: Client) -> None:
    assert anybody.get("/runs/", headers={"X-Requested-With": "fetch"}).status_code == 401


def test_a_view_that_does_not_say_who_may_open_it_is_no_page() -> None:
    def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse()

    with pytest.raises(TypeError, match="@page"):
        urls.route("open/", view, "open")


def test_a_method_that_a_page_does_not_name_is_refused(cast: Cast, as_user: AsUser) -> None:
    assert as_user(cast.owner).post("/runs/").status_code == 405


def test_a_look_by_head_does_nothing_of_what_a_form_does(cast: Cast, as_user: AsUser) -> None:
    """Django asks for no form's token where a browser only looks."""
    run = make_run(cast)
    assert as_user(cast.owner).head(f"/runs/{run.pk}/do/stop/").status_code == 405
    run.refresh_from_db()
    assert run.status == Status.QUEUED
    assert as_user(cast.owner).get("/launch-example/").status_code == 405


def test_a_form_without_its_token_is_refused(cast: Cast, as_user: AsUser, make_run: Callable[..., Run]) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(cast.owner)
    assert client.post(f"/runs/{make_run().pk}/do/stop/").status_code == 403


def test_a_form_from_a_page_whose_address_is_none_leads_home(
    cast: Cast, as_user: AsUser, make_run: Callable[..., Run]
) -> None:
    answer = as_user(cast.mate).post(f"/runs/{make_run().pk}/do/stop/", headers={"Referer": "fetch"})
    assert (answer.status_code, answer["Location"]) == (302, "/runs/")


def test_the_import_map_carries_the_nonce_of_the_policy(cast: Cast, as_user: AsUser) -> None:
    answer = as_user(cast.owner).get("/")
    (nonce,) = re.findall(r"'nonce-([^']+)'", answer["Content-Security-Policy"])
    assert f'<script type="importmap" nonce="{nonce}">' in answer.content.decode()


def test_the_theme_of_the_cookie_is_in_the_first_response(cast: Cast, as_user: AsUser) -> None:
    client = as_user(cast.owner)
    client.cookies["theme"] = "dark"
    assert '<html lang="en" data-theme="dark"' in client.get("/").content.decode()


def test_a_theme_that_does_not_exist_is_left_out(cast: Cast, as_user: AsUser) -> None:
    client = as_user(cast.owner)
    client.cookies["theme"] = '"><script>'
    assert "data-theme=" not in client.get("/").content.decode().split("<body>")[0]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_has_nothing_that_the_policy_forbids(path: Path) -> None:
    text = path.read_text()
    text = text.replace("{{ swagger_settings|safe }}", "")  # ninja's own JSON: constants and the document's URL
    assert not re.search(r"<[^>]*\sstyle=", text)
    assert not re.search(r"<[^>]*\son[a-z]+=", text)
    assert "javascript:" not in text
    assert "<style" not in text or path.parts[-2:] == ("sharing", "page.html")  # it fetches nothing, by its own policy
    for script in re.findall(r"<script[^>]*>", text):
        assert "nonce=" in script or "src=" in script or 'type="application/json"' in script
    assert "|safe" not in text
    assert "autoescape off" not in text


def test_every_icon_that_is_named_exists() -> None:
    for name in (*icons.ICONS, *icons.SHARED):
        assert "<path" in icons.icon(name)


@pytest.mark.parametrize(
    ("wanted", "place"),
    [
        ("/runs/?q=x", "/runs/?q=x"),
        ("", "/"),
        ("https://elsewhere.example/", "/"),
        ("//elsewhere.example/", "/"),
        ("javascript:alert(1)", "/"),
    ],
)
def test_what_comes_next_is_on_this_site(wanted: str, place: str) -> None:
    assert safe_next(RequestFactory().get("/", HTTP_HOST="127.0.0.1"), wanted, "/") == place
