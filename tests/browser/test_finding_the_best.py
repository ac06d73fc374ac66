"""Of 200 runs the two best of each width, kept as a view, compared, held against a baseline, and looked at closely: by
visible labels, and by keys alone."""

from __future__ import annotations

import re

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from benchmarks.load.planting import START_S, Writer, plant
from tests.browser.conftest import Seat
from tests.whole.runs import Yard

NUM_RUNS = 200
WIDTHS = (64, 128, 256)
BEST = ("gauge-198", "gauge-195")  # of width 64, which every third run has


@pytest.fixture(scope="module")
def gauges(office: Yard) -> None:
    """Runs of three widths; the losses go down with the number in the name."""
    for number in range(NUM_RUNS):
        writer, steps = Writer(), np.arange(1, 4)
        loss = 3 - number / NUM_RUNS
        values = np.array([[loss + 2, loss + 2.1], [loss + 1, loss + 1.1], [loss, loss + 0.1]])
        frames = writer.points(["train/loss", "val/loss"], steps, START_S + steps, values)
        config = {"width": WIDTHS[number % len(WIDTHS)]}
        plant(office.http, f"gauge-{number:03d}", [writer.begin(), *frames, writer.end()], [writer], config=config)


def grid(page: Page) -> Locator:
    return page.get_by_role("grid", name="Runs").or_(page.get_by_role("treegrid", name="Runs"))


def compared(page: Page) -> None:
    """What is found and kept, seen in Compare."""
    expect(page.get_by_role("heading", name="Compare", level=1)).to_be_visible()
    for name in BEST:
        expect(grid(page).get_by_role("row").filter(has_text=name)).to_be_visible()
    expect(grid(page).get_by_role("row").filter(has_text=BEST[1])).to_contain_text("higher than baseline")
    panel = page.get_by_role("article", name="val/loss / train/loss")
    expect(panel.get_by_role("rowheader").filter(has_text=BEST[0])).to_be_visible()


def test_by_visible_labels(seat: Seat, gauges: None) -> None:
    page = seat.go("/runs/")
    page.get_by_label("Filter by words or fields").fill("name ~ gauge-")
    expect(page).to_have_url(re.compile("filter=name"))
    expect(page.get_by_text(f"{NUM_RUNS} runs")).to_be_visible()
    page.get_by_role("button", name="Columns", exact=True).click()
    page.get_by_label("Find a field").fill("val/loss.min")
    page.get_by_role("checkbox", name="summary.val/loss.min").check()
    expect(grid(page).get_by_role("columnheader", name="val/loss min")).to_be_visible()
    page.get_by_label("Find a field").fill("config.width")
    page.get_by_role("button", name="Group by config.width").click()
    groups = grid(page).get_by_role("row").filter(has_text="width")
    expect(groups).to_have_count(len(WIDTHS))
    page.keyboard.press("Escape")
    grid(page).get_by_role("columnheader", name="val/loss min").get_by_role("link").click()
    expect(grid(page).get_by_role("columnheader", name="val/loss min")).to_have_attribute("aria-sort", "ascending")
    groups.filter(has_text="width 64").click()
    for name in BEST:
        grid(page).get_by_role("checkbox", name=f"Select {name}").check()
    page.get_by_role("button", name="Views").click()
    page.get_by_label("Name of the view").fill("best of each width")
    page.get_by_label("Name of the view").press("Enter")
    expect(page.get_by_role("button", name="best of each width", exact=True)).to_be_visible()
    page.get_by_role("link", name="Compare 2 runs").click()
    page.get_by_label("Which metric the list shows").select_option("val/loss")
    page.get_by_role("button", name=f"Make {BEST[0]} the baseline").click()
    page.get_by_role("button", name="Panel", exact=True).click()
    dialog = page.get_by_role("dialog", name="Add a panel")
    dialog.get_by_label("Lines").fill("val/loss / train/loss")
    dialog.get_by_role("button", name="Save").click()
    compared(page)


def test_by_keys_alone(seat: Seat, gauges: None) -> None:
    page = seat.go("/runs/")
    expect(page.get_by_role("status", name="How this page gets its news")).to_have_text("live")

    def at(element: Locator, *keys: str) -> None:
        element.focus()
        for key in keys:
            page.keyboard.press(key)

    page.keyboard.press("/")
    page.keyboard.type("gauge-")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("filter=gauge"))
    expect(page.get_by_text(f"{NUM_RUNS} runs")).to_be_visible()
    at(page.get_by_role("button", name="Columns", exact=True), "Enter")
    expect(page.get_by_label("Find a field")).to_be_focused()
    page.keyboard.type("val/loss.min")
    expect(page.get_by_role("checkbox", name="summary.val/loss.min")).to_be_visible()
    at(page.get_by_label("Find a field"), "ArrowDown", "Space")
    expect(grid(page).get_by_role("columnheader", name="val/loss min")).to_be_visible()
    at(page.get_by_label("Find a field"), "Control+A")
    page.keyboard.type("config.width")
    expect(page.get_by_role("button", name="Group by config.width")).to_be_visible()
    at(page.get_by_label("Find a field"), "ArrowDown", "Tab", "Enter")
    groups = grid(page).get_by_role("row").filter(has_text="width")
    expect(groups).to_have_count(len(WIDTHS))
    head = grid(page).get_by_role("columnheader", name="val/loss min")
    at(head.get_by_role("link"), "Enter")
    expect(head).to_have_attribute("aria-sort", "ascending")
    at(grid(page), "Control+Home", "ArrowDown", "Enter")  # the second group has the second best of all
    expect(groups.filter(has_text="width 64")).to_have_attribute("aria-expanded", "true")
    for key in ("ArrowDown", "x", "ArrowDown", "x"):
        page.keyboard.press(key)
    at(page.get_by_role("button", name="Views"), "Enter")
    expect(page.get_by_label("Name of the view")).to_be_focused()
    page.keyboard.type("best of each width, by keys")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="best of each width, by keys")).to_be_visible()
    at(page.get_by_role("link", name="Compare 2 runs"), "Enter")
    field = page.get_by_label("Which metric the list shows")
    field.focus()
    page.keyboard.type("val/loss")
    at(page.get_by_role("button", name=f"Make {BEST[0]} the baseline"), "Enter")
    at(page.get_by_role("button", name="Panel", exact=True), "Enter")
    dialog = page.get_by_role("dialog", name="Add a panel")
    dialog.get_by_label("Lines").focus()
    page.keyboard.type("val/loss / train/loss")
    at(dialog.get_by_role("button", name="Save"), "Enter")
    compared(page)
