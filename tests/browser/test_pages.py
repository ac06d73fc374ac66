"""Every page: nothing wrong in the console, nothing that shuts people out, no wider than a phone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, ViewportSize

from tests.browser.conftest import Seat, Sit, scripted
from tests.browser.places import FOR_STRANGERS, PLACES, furnish
from tests.up_process import ROOT
from tests.whole.runs import Yard

pytestmark = pytest.mark.browser

PHONE: ViewportSize = {"width": 390, "height": 844}
DESK: ViewportSize = {"width": 1440, "height": 900}
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
# axe reads the styles that it can reach by itself; preloading would fetch them all again.
OPTIONS = {"resultTypes": ["violations"], "preload": False}
# A new theme is not measured before it is painted.
RUN_AXE = """(options) => new Promise((painted) => requestAnimationFrame(() => requestAnimationFrame(painted)))
    .then(() => axe.run(options))"""
TOO_WIDE = """() => {
    const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    if (wide <= 0) return [];
    const reach = (element) => element.getBoundingClientRect().right;
    const all = [...document.body.querySelectorAll("*")].filter((element) => reach(element) > innerWidth + 0.5);
    return [`${wide} px too wide`, ...all.slice(0, 5).map((element) => element.outerHTML.slice(0, 120))];
}"""


@pytest.fixture(scope="module")
def live(office: Yard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The id of a run that is trained, without haste, until the tests are over."""
    run_id = office.submit(scripted(office, tmp_path_factory.mktemp("code"), "long-haul"))
    office.wait_for_step(run_id, 1)
    yield run_id
    office.post(f"/runs/{run_id}/stop")
    office.wait_for_end(run_id)


@pytest.fixture(scope="module")
def things(office: Yard, live: str, succeeded: str, failed: str) -> dict[str, str]:
    return {**furnish(office), "live": live, "succeeded": succeeded, "failed": failed}


def visit(name: str, sit: Sit, things: dict[str, str], **options: Any) -> Seat:
    seat: Seat = sit(**options, **({"storage_state": None} if name in FOR_STRANGERS else {}))
    if name == "not-found":
        seat.watch.expect("404")
    seat.go(PLACES[name].format(**things))
    seat.page.wait_for_load_state("networkidle" if name.startswith("api") else "load")
    if seat.page.locator(".connection").count():
        seat.page.locator(".connection[data-state=live]").wait_for()
    return seat


@pytest.mark.parametrize("name", PLACES)
def test_a_page_fits_a_phone_and_shuts_nobody_out(name: str, sit: Sit, things: dict[str, str]) -> None:
    seat = visit(name, sit, things, reduced_motion="reduce")
    assert seat.watch.unexpected() == []
    seat.page.set_viewport_size(PHONE)
    assert seat.page.evaluate(TOO_WIDE) == []
    seat.page.set_viewport_size(DESK)
    seat.watch.expect("")  # from here on the console has what axe does
    seat.page.evaluate(AXE.read_text())
    if name == "api-docs":
        seat.page.locator(".opblock-post .opblock-summary-control").first.click()
        seat.page.locator(".opblock-body .responses-wrapper").first.wait_for()
    assert barriers(seat.page) == []
    seat.page.emulate_media(color_scheme="dark")
    assert barriers(seat.page, runOnly=["color-contrast"]) == []


def barriers(page: Page, **options: Any) -> list[str]:
    """What axe calls serious or critical."""
    found = page.evaluate(RUN_AXE, {**OPTIONS, **options})["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    return [f"{one['id']}: {why(node)}: {node['html'][:160]}" for one in serious for node in one["nodes"][:5]]


def why(node: dict[str, Any]) -> str:
    return " ".join(check["message"] for check in (*node["any"], *node["all"], *node["none"]))
