"""What must not get lost in much: one odd step of a million, the first error of a million lines."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from benchmarks.planting import plant_lines, plant_points
from tests.browser.conftest import PATIENCE_MS, Seat, Sit
from tests.browser.test_launching import chart, drawn
from tests.browser.test_pages import AXE, barriers
from tests.whole.runs import Yard

pytestmark = pytest.mark.browser

STEPS = 1_000_000
SPIKE, HEIGHT = 613_241, 42.5
LINES, RANKS = 1_000_000, 8
FIRST = 700_003  # of rank 3; what rank 0 said later arrived long before it
ERROR = "torch.OutOfMemoryError: the tender is empty"
LATER = "RuntimeError: the boiler is cold"
FEW = 60  # points in view: each is a point of its own
AS_RAW = """([card, step]) => {
    const {plot, built} = card.chart;
    const [from, to] = plot.range;
    const inView = [...built.x].filter((x) => x >= from && x <= to);
    return to - from <= 60 && inView.includes(step) && inView.length >= to - from - 1;
}"""
# The view is narrower than it was, and as sharp as it gets: no point far from the spike stands for it any more.
AS_SHARP = """([card, step, span]) => {
    const {plot, built} = card.chart;
    const width = plot.range[1] - plot.range[0];
    return width < span && [...built.x].some((x) => Math.abs(x - step) <= Math.max(0.5, width / 100));
}"""
# How many points the spike is to the right of a step.
AHEAD = """(card, [at, spike]) => {
    const place = (step) => card.chart.built.x.findIndex((x) => x >= step);
    return place(spike) - place(at);
}"""


@pytest.fixture(scope="module")
def spiky(office: Yard) -> str:
    return plant_points(office.http, "a-million", STEPS, ["train/loss"], spikes={SPIKE: HEIGHT})


@pytest.fixture(scope="module")
def calm(office: Yard) -> str:
    return plant_points(office.http, "calm", 2_000, ["train/loss"], seed=2)


@pytest.fixture(scope="module")
def talkative(office: Yard) -> str:
    assert FIRST % RANKS == 3 and 900_000 % RANKS == 0
    return plant_lines(office.http, "talkative", LINES, num_ranks=RANKS, planted={FIRST: ERROR, 900_000: LATER})


def test_by_mouse_one_zooms_down_to_the_one_odd_step_of_a_million(seat: Seat, spiky: str) -> None:
    page = seat.go(f"/runs/{spiky}/")
    card = chart(page, "train/loss")
    expect(card.locator("canvas")).to_be_visible()
    assert len(drawn(page, "train/loss")) < 2_000, "the page did not get a million points"
    for _ in range(12):
        if zoomed_in(card):
            break
        span = width_of_view(card)
        left, box = place_of_spike(card)
        page.mouse.move(left - 12, box["y"] + 60)
        page.mouse.down()
        page.mouse.move(left + 12, box["y"] + 60, steps=4)
        page.mouse.up()
        page.wait_for_function("([card, span]) => card.chart.plot.range[1] - card.chart.plot.range[0] < span / 2",
                               arg=[card.element_handle(), span])  # fmt: skip
    page.wait_for_function(AS_RAW, arg=[card.element_handle(), SPIKE])
    left, box = place_of_spike(card)
    page.mouse.move(left, box["y"] + 3)
    expect(card.locator(".chart-value")).to_have_text(f"step {SPIKE:,}  ·  {HEIGHT}")
    card.locator(".u-over").dblclick()
    page.wait_for_function("([card, steps]) => card.chart.plot.range[1] - card.chart.plot.range[0] > 0.9 * steps",
                           arg=[card.element_handle(), STEPS])  # fmt: skip


def test_by_keyboard_one_zooms_down_to_it_too(seat: Seat, spiky: str) -> None:
    page = seat.go(f"/runs/{spiky}/")
    card = chart(page, "train/loss")
    expect(card.locator("canvas")).to_be_visible()
    page.get_by_role("application", name="Plot of train/loss").focus()
    page.keyboard.press("Home")
    for _ in range(16):
        walk_to_spike(page, card)
        if zoomed_in(card):
            break
        span = width_of_view(card)
        page.keyboard.press("+")
        page.keyboard.press("+")
        page.wait_for_function(AS_SHARP, arg=[card.element_handle(), SPIKE, span])
    page.wait_for_function(AS_RAW, arg=[card.element_handle(), SPIKE])
    walk_to_spike(page, card)
    expect(card.locator(".chart-value")).to_have_text(f"step {SPIKE:,}  ·  {HEIGHT}")
    expect(card.locator("[aria-live]")).to_contain_text(f"step {SPIKE:,}")
    page.keyboard.press("Enter")
    large = page.get_by_role("dialog").get_by_role("article", name="train/loss", exact=True)
    expect(large).to_be_visible()
    page.keyboard.press("Escape")
    expect(large).to_be_hidden()


def test_two_runs_are_compared_at_one_step(seat: Seat, spiky: str, calm: str) -> None:
    page = seat.go(f"/runs/compare/?run={spiky}&run={calm}&zoom=step:1-2000")
    card = chart(page, "train/loss")
    rows = card.locator(".chart-legend tbody tr")
    expect(rows).to_have_count(2)
    points = {
        run: next(point["value"] for point in drawn(page, "train/loss") if point["run"] == run) for run in (spiky, calm)
    }
    assert points[spiky] != points[calm]
    page.get_by_role("application", name="Plot of train/loss").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    for name in ("a-million", "calm"):
        expect(rows.filter(has_text=name)).to_be_visible()
    live = card.locator("[aria-live]")
    for word in ("a-million", "calm", "step"):
        expect(live).to_contain_text(word)


def test_the_first_error_of_a_million_lines_is_one_click_away(sit: Sit, talkative: str) -> None:
    seat = sit(permissions=["clipboard-read", "clipboard-write"])
    page = opened(seat, talkative)
    page.get_by_role("button", name=re.compile("first error", re.I)).click()
    expect(chosen(page)).to_contain_text(ERROR)
    expect(chosen(page)).to_contain_text("3")
    neighbours = page.locator(".log-line .log-text").all_text_contents()
    assert any(f"step {FIRST - 1:>9,} rank 2" in text for text in neighbours), "it is among its neighbours in time"
    page.keyboard.press("y")
    link = page.evaluate("navigator.clipboard.readText()")
    seat.go(link.removeprefix(seat.url))
    expect(chosen(page)).to_contain_text(ERROR)


def test_by_keyboard_one_goes_from_error_to_error_and_searches_all_lines(seat: Seat, talkative: str) -> None:
    page = opened(seat, talkative)
    log = page.get_by_role("grid", name="Lines, oldest first")
    log.focus()
    page.keyboard.press("Home")
    expect(page.locator(".log-line .log-text").first).to_contain_text("step         0 rank 0")
    page.keyboard.press("e")
    expect(chosen(page)).to_contain_text(ERROR)
    page.keyboard.press("e")
    expect(chosen(page)).to_contain_text(LATER)
    page.keyboard.press("Shift+E")
    expect(chosen(page)).to_contain_text(ERROR)
    page.keyboard.press("End")
    expect(page.locator(".log-line .log-text").last).to_contain_text(f"step {LINES - 1:>9,} rank 7")
    page.keyboard.press("/")
    page.keyboard.type("step   999,992 rank 0")
    expect(page.locator("#log-found")).to_have_text("1 hit", timeout=PATIENCE_MS)
    expect(page.locator(".log-line .log-text")).to_have_count(1)


@pytest.mark.parametrize("what", ["charts", "compare", "logs"])
def test_such_pages_shut_nobody_out(what: str, sit: Sit, spiky: str, calm: str, talkative: str) -> None:
    paths = {
        "charts": f"/runs/{spiky}/?zoom=step:613200-613280",
        "compare": f"/runs/compare/?run={spiky}&run={calm}",
        "logs": f"/runs/{talkative}/logs/?level=error",
    }
    seat = sit(reduced_motion="reduce")
    page = seat.go(paths[what])
    expect(page.locator(".chart-card canvas, .log-line").first).to_be_visible()
    assert seat.watch.unexpected() == []
    seat.watch.expect("")  # from here on the console has what axe does
    page.evaluate(AXE.read_text())
    assert barriers(page) == []
    page.emulate_media(color_scheme="dark")
    assert barriers(page, runOnly=["color-contrast"]) == []


def opened(seat: Seat, run_id: str) -> Page:
    page = seat.go(f"/runs/{run_id}/logs/")
    expect(page.locator(".log-line .log-text").first).to_contain_text("rank")
    return page


def chosen(page: Page) -> Locator:
    return page.get_by_role("grid", name="Lines, oldest first").locator("[aria-selected=true]")


def zoomed_in(card: Locator) -> bool:
    return width_of_view(card) <= FEW


def width_of_view(card: Locator) -> float:
    width: float = card.evaluate("(card) => card.chart.plot.range[1] - card.chart.plot.range[0]")
    return width


def place_of_spike(card: Locator) -> tuple[float, dict[str, float]]:
    """Where a person sees it: the x of the page, and the plot's box."""
    box = card.locator(".u-over").bounding_box()
    assert box is not None
    return box["x"] + card.evaluate("(card, step) => card.chart.plot.toLeft(step)", SPIKE), dict(box)


def walk_to_spike(page: Page, card: Locator) -> None:
    """Move the crosshair by arrow keys to the point that is nearest to the spike, as far as the points in view tell."""
    for _ in range(400):
        at = step_of_crosshair(card)
        ahead = card.evaluate(AHEAD, [at, SPIKE])
        if ahead == 0:
            return
        key = "ArrowRight" if ahead > 0 else "ArrowLeft"
        page.keyboard.press(f"Shift+{key}" if abs(ahead) >= 12 else key)
        if step_of_crosshair(card) == at:  # the points in view do not tell any better
            return


def step_of_crosshair(card: Locator) -> int:
    found = re.search(r"step ([\d,]+)", card.locator(".chart-value").inner_text())
    assert found is not None
    return int(found[1].replace(",", ""))
