"""Every page: nothing wrong in the console, nothing that moves while it loads, nothing that shuts people out, no wider
than a phone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, ViewportSize

from tests.browser.conftest import DESK, Seat, forget_storage, new_context, scripted
from tests.browser.places import FOR_STRANGERS, PLACES, furnish
from tests.browser.watch import GOOD, WATCH, Watch
from tests.up_process import ROOT, Up
from tests.whole.runs import Yard

PHONE: ViewportSize = {"width": 390, "height": 844}
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
# axe reads the styles that it can reach by itself; preloading would fetch them all again.
OPTIONS = {"resultTypes": ["violations"], "preload": False}
# A new theme is not measured before it is painted. Rules whose violations would be left out below are not run: what a
# rule is rated, all that it finds is.
RUN_AXE = """(options) => {
    const mild = axe._audit.rules.filter((rule) => ["minor", "moderate"].includes(rule.impact));
    const rules = Object.fromEntries(mild.map((rule) => [rule.id, {enabled: false}]));
    return new Promise((painted) => requestAnimationFrame(() => requestAnimationFrame(painted)))
        .then(() => axe.run({rules, ...options}));
}"""
# By axe in `make test-all`: thousands of elements, of a package; and what has the templates of a page that is measured.
MEASURED_LATER = ("api-docs", "runs-filtered-to-none", "compare-nothing", "run-live", "run-failed", "run-media-none",
                  "launch-benchmark", "launch-script", "admin-runs")  # fmt: skip
NUM_PATHS = 6  # of the API, which its page shows of hundreds in `make test`: it draws each
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


@pytest.fixture(scope="module")
def contexts(browser: Browser, desk: BrowserContext) -> Iterator[dict[bool, BrowserContext]]:
    """Whether for strangers to the context that all their pages share: what one has fetched another finds there."""
    both = {True: new_context(browser), False: desk}
    yield both
    both[True].close()


Visit = Callable[..., Seat]


@pytest.fixture
def visit(contexts: dict[bool, BrowserContext], things: dict[str, str], running_trainyard: Up) -> Iterator[Visit]:
    """``visit(name)``: a seat at the place of that name, at a desk and in light colours. The page of the API shows the
    first paths alone, unless it ``is_whole``."""
    with ExitStack() as stack:

        def visit(name: str, *, is_whole: bool = True) -> Seat:
            page = contexts[name in FOR_STRANGERS].new_page()
            stack.callback(page.close)
            seat = Seat(page, Watch(page), running_trainyard.url)
            forget_storage(seat)
            page.add_init_script(WATCH)
            if name == "not-found":
                seat.watch.expect("404")
            if name == "api-docs" and not is_whole:
                page.route("**/api/v1/openapi.json", shorten)
            seat.go(PLACES[name].format(**things))
            page.wait_for_load_state("networkidle" if name.startswith("api") else "load")
            if page.locator(".connection").count():
                page.locator(".connection[data-state=live]").wait_for()
            return seat

        yield visit


@pytest.mark.parametrize("name", PLACES)
def test_a_page_stands_still_fits_a_phone_and_shuts_nobody_out(name: str, visit: Visit) -> None:
    seat = visit(name, is_whole=False)
    shifts: list[tuple[float, list[str]]] = seat.page.evaluate("window.shifts")
    assert sum(value for value, _ in shifts) < GOOD, shifts
    check_that_it_fits_a_phone(seat)
    if name not in MEASURED_LATER:
        begin_axe(name, seat)
        assert barriers(seat.page) == []


@pytest.mark.extended
@pytest.mark.parametrize("name", PLACES)
def test_a_page_stands_still_on_a_phone(name: str, visit: Visit) -> None:
    page = visit(name, is_whole=False).page
    page.set_viewport_size(PHONE)
    page.reload()
    page.wait_for_load_state("networkidle" if name.startswith("api") else "load")
    page.wait_for_timeout(1_000)
    shifts: list[tuple[float, list[str]]] = page.evaluate("window.shifts")
    assert sum(value for value, _ in shifts) < GOOD, shifts


@pytest.mark.extended
def test_the_page_of_the_whole_api_fits_a_phone(visit: Visit) -> None:
    seat = visit("api-docs")
    assert seat.page.locator(".opblock").count() > 10 * NUM_PATHS
    check_that_it_fits_a_phone(seat)


def check_that_it_fits_a_phone(seat: Seat) -> None:
    seat.page.set_viewport_size(PHONE)
    assert seat.page.evaluate(TOO_WIDE) == []
    seat.page.set_viewport_size(DESK)
    assert seat.watch.unexpected() == []


def shorten(route: Route) -> None:
    """Answer with the first paths of the API, and what they refer to."""
    answer = route.fetch()
    schema = answer.json()
    paths = dict(list(schema["paths"].items())[:NUM_PATHS])
    assert len(schema["paths"]) > NUM_PATHS
    models, wanted = schema["components"]["schemas"], referred(paths)
    while more := referred({name: models[name] for name in wanted}) - wanted:
        wanted |= more
    components = {**schema["components"], "schemas": {name: models[name] for name in sorted(wanted)}}
    route.fulfill(response=answer, json={**schema, "paths": paths, "components": components})


def referred(part: object) -> set[str]:
    return set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(part)))


@pytest.mark.extended
@pytest.mark.parametrize("name", PLACES)
def test_a_page_shuts_nobody_out_in_the_dark_and_on_a_phone(name: str, visit: Visit) -> None:
    seat = visit(name)
    begin_axe(name, seat)
    seat.page.emulate_media(color_scheme="dark")
    assert barriers(seat.page, runOnly=["color-contrast"]) == []
    seat.page.set_viewport_size(PHONE)
    assert barriers(seat.page, runOnly=["color-contrast"]) == []
    seat.page.emulate_media(color_scheme="light")
    assert barriers(seat.page) == []


def begin_axe(name: str, seat: Seat) -> None:
    """Bring axe into the page, and open what is folded on that of the API. Then the console has what axe does, too."""
    seat.page.evaluate(AXE.read_text())
    if name == "api-docs":
        seat.page.locator(".opblock-post .opblock-summary-control").first.click()
        seat.page.locator(".opblock-body .responses-wrapper").first.wait_for()


def barriers(page: Page, **options: Any) -> list[str]:
    """What axe calls serious or critical."""
    found = page.evaluate(RUN_AXE, {**OPTIONS, **options})["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    return [f"{one['id']}: {why(node)}: {node['html'][:160]}" for one in serious for node in one["nodes"][:5]]


def why(node: dict[str, Any]) -> str:
    return " ".join(check["message"] for check in (*node["any"], *node["all"], *node["none"]))
