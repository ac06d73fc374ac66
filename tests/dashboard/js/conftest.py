"""The browser's modules in a real Chromium, without the product around them."""

from __future__ import annotations

import json
import mimetypes
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings
from playwright.sync_api import Browser, Page, Route

from dashboard.frontend.scripts import PACKAGES
from dashboard.setup.machine import find_chromium

FOLDER = settings.BASE_DIR / "static" / "js"
Ask = Callable[..., Any]


IMPORT_MAP = json.dumps({"imports": {name: f"/{path}" for name, path in PACKAGES.items()}})
EMPTY_PAGE = f"<!doctype html><script type=importmap>{IMPORT_MAP}</script><main id=place></main>"


def serve(route: Route) -> None:
    """The modules as they are, packages of npm, and an empty page to import them in."""
    name = route.request.url.removeprefix("http://modules.invalid/")
    if not name:
        return route.fulfill(content_type="text/html", body=EMPTY_PAGE)
    package = name.removeprefix("npm/")
    path = FOLDER / name if package == name else settings.BASE_DIR / "node_modules" / package
    if not path.is_file():
        return route.fulfill(status=404)
    kind = mimetypes.guess_type(name)[0] or "text/plain"
    return route.fulfill(content_type=kind, body=path.read_text())


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    page.route("http://modules.invalid/**", serve)
    page.goto("http://modules.invalid/")
    yield page
    page.close()


@pytest.fixture(scope="module")
def ask(page: Page) -> Ask:
    """``ask("shared/format.js", "({number}, x) => number(x)", 3)``: call a function with the module and a value."""
    return asker(page)


@pytest.fixture(scope="module")
def page_with_bars(browser: Browser) -> Iterator[Page]:
    """The same in a Chromium whose scroll bars take room, as on most desks; Playwright hides them."""
    chromium = browser.browser_type.launch(
        executable_path=find_chromium(), args=["--no-sandbox"], ignore_default_args=["--hide-scrollbars"]
    )
    page = chromium.new_page()
    page.route("http://modules.invalid/**", serve)
    page.goto("http://modules.invalid/")
    yield page
    chromium.close()


def asker(page: Page) -> Ask:
    def call(module: str, function: str, value: Any = None) -> Any:
        return page.evaluate(
            f"async (value) => ({function})(await import('http://modules.invalid/{module}'), value)", value
        )

    return call
