"""The browser's modules without the product around them: in Node, and what needs a document in a real Chromium."""

from __future__ import annotations

import json
import mimetypes
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from playwright.sync_api import Browser, Page, Route

from dashboard.frontend.bundles import PACKAGES
from dashboard.setup.node import find_node
from tests.machine import find_chromium

SITE = "http://modules.invalid/"
FOLDER = settings.BASE_DIR / "static" / "js"
Ask = Callable[..., Any]


IMPORT_MAP = json.dumps({"imports": {name: f"/{path}" for name, path in PACKAGES.items()}})
EMPTY_PAGE = f"<!doctype html><script type=importmap>{IMPORT_MAP}</script><main id=place></main>"


def serve(route: Route) -> None:
    """The modules as they are, packages of npm, and an empty page to import them in."""
    name = route.request.url.removeprefix(SITE)
    if not name:
        return route.fulfill(content_type="text/html", body=EMPTY_PAGE)
    package = name.removeprefix("npm/")
    path = FOLDER / name if package == name else settings.BASE_DIR / "node_modules" / package
    if not path.is_file():
        return route.fulfill(status=404)
    kind = mimetypes.guess_type(name)[0] or "text/plain"
    return route.fulfill(content_type=kind, body=path.read_text())


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """``ask("shared/format.js", "({number}, x) => number(x)", 3)``: call a function with the module and a value."""
    packages = {name: (settings.BASE_DIR / "node_modules" / path[4:]).as_uri() for name, path in PACKAGES.items()}
    asked = Path(__file__).with_name("asked.mjs")
    with subprocess.Popen(
        [find_node(), asked, f"{FOLDER.as_uri()}/", json.dumps(packages)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8",
    ) as node:  # fmt: skip
        assert node.stdin and node.stdout

        def call(module: str, function: str, value: Any = None) -> Any:
            asks = f"(async (value) => ({function})(await import('{SITE}{module}'), value))({json.dumps(value)})"
            node.stdin.write(json.dumps(asks) + "\n")
            node.stdin.flush()
            answer = json.loads(node.stdout.readline())
            assert "error" not in answer, answer["error"]
            return answer["value"]

        yield call


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    page.route(f"{SITE}**", serve)
    page.goto(SITE)
    yield page
    page.close()


@pytest.fixture(scope="module")
def ask_page(page: Page) -> Ask:
    """`ask` in the page."""
    return asker(page)


@pytest.fixture(scope="module")
def page_with_bars(browser: Browser) -> Iterator[Page]:
    """The same in a Chromium whose scroll bars take room, as on most desks; Playwright hides them."""
    chromium = browser.browser_type.launch(
        executable_path=find_chromium(), args=["--no-sandbox"], ignore_default_args=["--hide-scrollbars"]
    )
    page = chromium.new_page()
    page.route(f"{SITE}**", serve)
    page.goto(SITE)
    yield page
    chromium.close()


def asker(page: Page) -> Ask:
    def call(module: str, function: str, value: Any = None) -> Any:
        return page.evaluate(f"async (value) => ({function})(await import('{SITE}{module}'), value)", value)

    return call
