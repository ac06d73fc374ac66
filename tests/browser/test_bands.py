"""Words over steps, in the pages of two runs: bands that follow the charts, and the same as a table."""

from __future__ import annotations

import math

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.albums import told
from tests.browser.conftest import Sit
from tests.browser.test_pages import AXE, barriers
from tests.up_process import Up

SCRIPT = """
import sys, trainyard
HOSTILE = '<b onclick="document.title=1">\\u0645\\u0631\\u062d\\u0628\\u0627</b>'
run = trainyard.init(sys.argv[1])
for step in range(100):
    phase = "warmup" if step < 20 else "train" if step < 60 else HOSTILE if step < 61 else "anneal"
    run.log({"phase": phase, "train/loss": 1 / (1 + step), "lr/mode": f"mode {step // 7}"}, step=step)
run.finish()
"""


@pytest.fixture(scope="module")
def phased(running_trainyard: Up, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [told(running_trainyard, tmp_path_factory.mktemp(name), SCRIPT, name) for name in ("early", "later-one")]


def bands(page: Page, name: str) -> Locator:
    return page.get_by_role("article", name=name, exact=True).locator("[data-band]")


def left_of(band: Locator) -> float:
    return float(band.evaluate("(one) => one.offsetLeft / one.parentElement.offsetWidth"))


def test_words_are_bands_that_follow_zoom_and_axis_and_a_table(sit: Sit, phased: list[str]) -> None:
    seat = sit()
    page = seat.go(f"/runs/{phased[0]}/")
    phases = bands(page, "phase")
    expect(phases).to_have_count(4)
    expect(phases.nth(1)).to_have_text("train")
    expect(phases.nth(1)).to_have_attribute("title", "train: steps 20 to 60")
    assert left_of(phases.nth(1)) == pytest.approx(20 / 99, abs=0.01)
    table = page.get_by_role("article", name="phase", exact=True).get_by_text("As a table")
    table.click()
    expect(page.get_by_role("region", name="Values of phase").get_by_role("row")).to_have_count(5)
    page.get_by_label("Horizontal axis").select_option("time")
    expect(page.get_by_role("article", name="phase", exact=True).locator("[data-low]")).to_contain_text(":")
    page.evaluate("(run) => sessionStorage.setItem(`zoom ${run}`, '[40, 60]')", phased[0])
    seat.go(f"/runs/{phased[0]}/?x=step")
    expect(phases.nth(1)).to_be_visible()
    assert [left_of(phases.nth(1)), phases.nth(0).is_visible()] == [0, False]
    page.evaluate("(run) => sessionStorage.removeItem(`zoom ${run}`)", phased[0])
    seat.go(f"/runs/{phased[0]}/?logx=1")
    expect(phases).to_have_count(4)
    assert left_of(phases.nth(1)) == pytest.approx(math.log(20) / math.log(99), abs=0.01)
    page.get_by_label("Filter metrics").fill("loss")
    expect(phases.nth(1)).to_be_hidden()
    page.get_by_label("Filter metrics").fill("phas")
    expect(phases.nth(1)).to_be_visible()
    seat.go(f"/runs/compare/?run={phased[0]}&run={phased[1]}")
    expect(bands(page, "phase")).to_have_count(8)
    seat.watch.expect("")  # from here on the console has what axe does
    page.evaluate(AXE.read_text())
    assert barriers(page) == []
