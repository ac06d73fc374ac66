"""Charts under a person's hands: zoom, crosshair, legend, full screen, pictures, sizes; by pointer and by keyboard."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from benchmarks.load.planting import START_S, Writer, plant, plant_points
from tests.browser.conftest import Seat
from tests.browser.test_launching import chart
from tests.browser.test_pages import AXE, barriers
from tests.up_process import wait_until
from tests.whole.runs import Yard

SPIKE, HEIGHT = 654_321, 42.0
NUM_RANKS = 8
NUM_ZOOMS = 8


@pytest.fixture(scope="module")
def million(office: Yard) -> str:
    """The id of a run of a million points a series, one of which is high above the others."""
    return plant_points(office.http, "a-million", 1_000_000, ["train/loss", "val/loss"], spikes={SPIKE: HEIGHT})


@pytest.fixture(scope="module")
def ranks(office: Yard) -> str:
    """The id of a run whose ranks logged a line each."""
    writer = Writer()
    steps = np.arange(1, 301, dtype=np.int64)
    times = START_S + steps / 10

    def frames() -> Iterator[bytes]:
        yield writer.begin()
        for rank in range(NUM_RANKS):
            for name in ("rank/step_time_s", "rank/wait_s"):
                yield from writer.points([name], steps, times, (0.5 - rank / 20 + steps * 0)[:, None], rank=str(rank))
        yield from writer.points(["train/loss"], steps, times, (4 / steps**0.3)[:, None])
        yield writer.end()

    return plant(office.http, "eight-ranks", frames(), [writer])


def test_drags_lead_to_a_spike_of_one_step_among_a_million(seat: Seat, million: str) -> None:
    page = seat.go(f"/runs/{million}/")
    loss, other = chart(page, "train/loss"), chart(page, "val/loss")
    point_at(page, loss, SPIKE)
    expect(loss.locator(".chart-spread")).to_contain_text("42")  # of the bucket, from far away
    for _ in range(NUM_ZOOMS):
        zoom_by_drag(page, loss)
        if width_of(loss) < 50:
            break
    point_at(page, loss, SPIKE)
    expect(loss.locator(".chart-value")).to_have_text(f"step {SPIKE:,}  ·  42")
    expect(loss.locator(".chart-spread")).to_have_text("")  # it is a point and no bucket any more
    expect(other.locator(".chart-value")).to_contain_text(f"step {SPIKE:,}")
    assert width_of(other) == width_of(loss), "all charts of an axis follow"
    expect(page).to_have_url(re.compile("zoom=step"))
    loss.locator(".chart-over").dblclick(position={"x": 20, "y": 60})
    wait_until_all_is_in_view(page, loss)


def test_a_line_that_is_pointed_at_is_lit_in_all_charts_and_the_legends_sort_together(seat: Seat, ranks: str) -> None:
    page = seat.go(f"/runs/{ranks}/")
    time, wait = chart(page, "rank/step_time_s"), chart(page, "rank/wait_s")
    expect(time.get_by_role("row")).to_have_count(1 + NUM_RANKS)
    time.get_by_role("row", name="rank 3").hover()
    expect(wait.locator("tr.is-lit")).to_contain_text("rank 3")
    assert time.evaluate("(card) => card.chart.plot.lit('x') === false"), "the others are faint"
    time.get_by_role("button", name="Value").click()
    first = wait.get_by_role("row").nth(1)
    expect(first).to_contain_text("rank 0")
    expect(wait.get_by_role("columnheader", name="Value")).to_have_attribute("aria-sort", "descending")
    wait.get_by_role("button", name="Value").click()
    expect(time.get_by_role("row").nth(1)).to_contain_text("rank 7")
    point_at(page, time, 100)
    expect(wait.locator(".chart-value")).to_have_text("step 100")
    expect(chart(page, "train/loss").locator(".chart-value")).to_contain_text("step 100")


def test_full_screen_has_the_neighbours_on_arrow_keys_and_gives_the_focus_back(seat: Seat, ranks: str) -> None:
    page = seat.go(f"/runs/{ranks}/")
    plot = chart(page, "train/loss").get_by_role("application")
    wait_until_drawn(chart(page, "train/loss"))
    plot.focus()
    page.keyboard.press("Enter")
    full = page.get_by_role("dialog", name="train/loss")
    expect(full.locator("canvas")).to_be_visible()
    expect(page).to_have_url(re.compile("open=train%2Floss"))
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("dialog", name="rank/step_time_s").get_by_role("row")).to_have_count(1 + NUM_RANKS)
    page.keyboard.press("ArrowLeft")
    expect(full).to_be_visible()
    page.evaluate(AXE.read_text())
    assert barriers(page) == []
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(plot).to_be_focused()


def test_a_chart_is_saved_as_a_picture(seat: Seat, ranks: str, tmp_path: Path) -> None:
    page = seat.go(f"/runs/{ranks}/")
    card = chart(page, "rank/step_time_s")
    wait_until_drawn(card)
    with page.expect_download() as download:
        card.get_by_role("button", name="PNG").click()
    assert download.value.suggested_filename == "rank-step_time_s.png"
    download.value.save_as(tmp_path / "chart.png")
    head = (tmp_path / "chart.png").read_bytes()[:24]
    width, height = struct.unpack(">II", head[16:24])
    canvas = card.locator("canvas").evaluate("(canvas) => [canvas.width, canvas.height]")
    assert head.startswith(b"\x89PNG")
    assert width > canvas[0]
    assert height > canvas[1] + 18 * NUM_RANKS, "with its title and its legend"


def test_a_note_is_written_at_a_step_by_keys_and_read_in_chart_table_and_timeline(seat: Seat, ranks: str) -> None:
    page = seat.go(f"/runs/{ranks}/")
    loss = chart(page, "train/loss")
    wait_until_drawn(loss)
    loss.get_by_role("application").focus()
    page.keyboard.press("End")
    page.keyboard.press("n")
    dialog = page.get_by_role("dialog", name="Note at a step")
    expect(dialog.get_by_label("Step")).to_have_value("300")
    expect(dialog.get_by_label("Note", exact=True)).to_be_focused()
    dialog.get_by_label("Step").fill("150")
    dialog.get_by_label("Note", exact=True).fill("new <data> from here")
    page.keyboard.press("Enter")
    flag = loss.get_by_role("button", name="new <data> from here")
    flag.focus()
    expect(flag.get_by_text("new <data> from here")).to_be_visible()
    loss.get_by_role("button", name="As a table").click()
    expect(loss.get_by_role("listitem")).to_have_text(re.compile("step 150: .+: new <data> from here"))
    seat.watch.expect("")  # from here on the console has what axe does
    page.evaluate(AXE.read_text())
    assert barriers(page) == []
    page.goto(f"{seat.url}/runs/{ranks}/timeline/")
    expect(page.get_by_label("Timeline", exact=True).get_by_text("new <data> from here")).to_be_visible()


def test_a_chart_keeps_the_size_that_it_was_given(seat: Seat, ranks: str) -> None:
    page = seat.go(f"/runs/{ranks}/")
    card = chart(page, "rank/wait_s")
    wait_until_drawn(card)
    before = size_of(card)
    card.get_by_role("button", name=re.compile("^Size of the chart")).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    wait_until(lambda: size_of(card)[0] > 1.8 * before[0], "the chart is two columns wide")
    assert size_of(card)[1] > before[1]
    expect(page.get_by_text("kept for you")).to_be_attached()
    page.reload()
    wait_until_drawn(card)
    assert size_of(card)[0] > 1.8 * before[0]
    card.get_by_role("button", name=re.compile("^Size of the chart")).press("Enter")
    wait_until(lambda: size_of(card)[0] == before[0], "the chart is as wide as before")


def test_a_chart_has_a_logarithmic_axis_of_its_own(seat: Seat, ranks: str) -> None:
    page = seat.go(f"/runs/{ranks}/")
    card = chart(page, "train/loss")
    wait_until_drawn(card)
    log = card.get_by_role("button", name="log y")
    card.get_by_role("application").press("l")
    expect(log).to_have_attribute("aria-pressed", "true")
    assert card.evaluate("(card) => card.chart.plot.frame.y.isLog") is True
    log.click()
    expect(log).to_have_attribute("aria-pressed", "false")


def wait_until_drawn(card: Locator) -> None:
    """Its element is another one once somebody has seen it: it is looked for each time."""
    is_drawn = "(card) => Boolean(card.chart?.plot?.built?.x.length)"
    wait_until(lambda: card.count() == 1 and card.evaluate(is_drawn), "the chart is drawn")


def width_of(card: Locator) -> float:
    """How much of x is in view."""
    width: float = card.evaluate("(card) => card.chart.plot.range[1] - card.chart.plot.range[0]")
    return width


def size_of(card: Locator) -> list[float]:
    size: list[float] = card.evaluate("(card) => [card.offsetWidth, card.querySelector('.chart-plot').offsetHeight]")
    return size


def wait_until_all_is_in_view(page: Page, card: Locator) -> None:
    page.wait_for_function("(card) => card.chart.plot.look.view === null", arg=card.element_handle())


def settle(page: Page, card: Locator) -> None:
    """Return when the points of what is in view have come and are drawn: the finest that there are, or many."""
    page.wait_for_function(
        """(card) => {
            const {plot, zooming} = card.chart;
            const [from, to] = plot.range;
            const seen = plot.built.x.filter((x) => x >= from && x <= to).length;
            return zooming.held === undefined && (seen >= 200 || seen >= Math.floor(to - from) - 1);
        }""",
        arg=card.element_handle(),
    )


def point_at(page: Page, card: Locator, step: int) -> None:
    """Put the pointer where a step is, at the top of the plot."""
    wait_until_drawn(card)
    card.scroll_into_view_if_needed()
    box = box_of(card)
    left = card.evaluate("(card, x) => card.chart.plot.toLeft(x)", step)
    page.mouse.move(box["x"] + left, box["y"] + 12)


def zoom_by_drag(page: Page, card: Locator) -> None:
    """Drag over a tenth of what is in view, with the spike in its middle, and wait for its points."""
    box = box_of(card)
    before = width_of(card)
    middle = card.evaluate("(card, x) => card.chart.plot.toLeft(x)", SPIKE)
    half = box["width"] / 20
    page.mouse.move(box["x"] + max(2, middle - half), box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + min(box["width"] - 2, middle + half), box["y"] + 70, steps=3)
    page.mouse.up()
    page.wait_for_function(
        "([card, before]) => card.chart.plot.range[1] - card.chart.plot.range[0] < 0.3 * before",
        arg=[card.element_handle(), before],
    )
    settle(page, card)


def box_of(card: Locator) -> dict[str, Any]:
    box: Any = card.locator(".chart-over").bounding_box()
    assert box is not None
    return dict(box)
