from __future__ import annotations
import pytest
from playwright.sync_api import expect
from tests.browser.test_bands import *  # noqa
from tests.browser.test_table import many, grid  # noqa

def test_look(sit, phased, many):
    for scheme in ("light", "dark"):
        for width in (390, 1440, 2560):
            seat = sit()
            page = seat.page
            page.set_viewport_size({"width": width, "height": 900 if width > 400 else 800})
            page.emulate_media(color_scheme=scheme)
            seat.go(f"/runs/{phased[0]}/")
            page.wait_for_timeout(800)
            page.locator(".chart-bands").scroll_into_view_if_needed()
            page.screenshot(path=f"/tmp/rest-run-{width}-{scheme}.png", full_page=True)
            seat.go(f"/runs/compare/?run={phased[0]}&run={phased[1]}")
            page.wait_for_timeout(800)
            page.locator(".bands").first.screenshot(path=f"/tmp/rest-compare-{width}-{scheme}.png")
            if width > 400:
                seat.go("/runs/?filter=wagon-0&columns=name,summary.train/loss.last,local.host,status")
                page.get_by_role("button", name="Column train/loss last").click()
                page.wait_for_timeout(600)
                page.screenshot(path=f"/tmp/rest-menu-{width}-{scheme}.png")
                page.keyboard.press("Escape")
                page.get_by_role("button", name="Column host").click()
                page.wait_for_timeout(600)
                page.screenshot(path=f"/tmp/rest-menu2-{width}-{scheme}.png")
