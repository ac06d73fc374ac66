"""Pages stand still while they load: what comes late has its room."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, ViewportSize

from tests.browser.conftest import DESK, sitting
from tests.browser.test_pages import PHONE
from tests.browser.watch import GOOD, WATCH, moved
from tests.up_process import Up


@pytest.mark.parametrize("view", [DESK, PHONE], ids=["desk", "phone"])
def test_a_comparison_stands_still_while_its_font_and_its_charts_come(
    view: ViewportSize, browser: Browser, session: Any, running_trainyard: Up, succeeded: str, failed: str
) -> None:
    with sitting(browser, running_trainyard.url, storage_state=session, viewport=view) as seat:  # nothing was fetched
        seat.page.add_init_script(WATCH)
        page = seat.go(f"/runs/compare/?run={succeeded}&run={failed}")
        page.locator(".chart-card canvas").first.wait_for()
        page.locator(".connection[data-state=live]").wait_for()
        shifts = moved(page)
    assert sum(value for value, _ in shifts) < GOOD, shifts


@pytest.mark.parametrize("path", ["/launch/", "/launch/?sweep=1"], ids=["run", "sweep"])
@pytest.mark.parametrize("view", [DESK, PHONE], ids=["desk", "phone"])
def test_the_launch_form_stands_still_while_its_font_and_what_varies_come(
    view: ViewportSize, path: str, browser: Browser, session: Any, running_trainyard: Up
) -> None:
    with sitting(browser, running_trainyard.url, storage_state=session, viewport=view) as seat:  # nothing was fetched
        seat.page.add_init_script(WATCH)
        page = seat.go(path)
        if "sweep" in path:
            page.locator(".is-varied").first.wait_for()
        page.locator(".connection[data-state=live]").wait_for()
        shifts = moved(page)
    assert sum(value for value, _ in shifts) < GOOD, shifts
