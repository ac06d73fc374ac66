"""Charts as a person's own place: what they set stays, is in the address, and says so where there is nothing to see."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from benchmarks.load.planting import START_S, Writer, plant, plant_points
from tests.browser.conftest import Seat, Sit
from tests.browser.test_launching import chart, drawn
from tests.browser.test_pages import AXE, PHONE, TOO_WIDE, barriers
from tests.whole.runs import Yard

NAMES = ("train/loss", "val/loss", "train/accuracy", "optim/lr", "optim/grad_norm")
ODD = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>/y",
    "rtl/\u202eevil\u202c שלום",
    "emoji/🚂",
    "long/" + "x" * 480,
)
NUM_WIDE = 120
EXPLODING = "(x+x+)+y"


@pytest.fixture(scope="module")
def plain(office: Yard) -> str:
    """The id of a run with a few metrics and two ranks' labels."""
    writer = Writer()
    steps = np.arange(1, 201, dtype=np.int64)
    times = START_S + steps / 10
    values = 4 / steps[:, None] ** np.linspace(0.1, 0.5, len(NAMES))
    frames = [writer.begin(), *writer.points(NAMES, steps, times, values)]
    for rank in "01":
        frames += writer.points(["rank/step_time_s"], steps, times, values[:, :1], rank=rank)
    return plant(office.http, "plain-charts", [*frames, writer.end()], [writer])


@pytest.fixture(scope="module")
def wide(office: Yard) -> str:
    """The id of a run with very many metrics."""
    return plant_points(office.http, "wide-charts", 300, [f"train/metric_{number}" for number in range(NUM_WIDE)])


@pytest.fixture(scope="module")
def odd(office: Yard) -> str:
    """The id of a run whose metrics have names that are none of a program's business."""
    return plant_points(office.http, "odd-charts", 20, ODD)


def titles(page: Page) -> list[str]:
    names: list[str] = page.locator(".chart-card").evaluate_all("(cards) => cards.map((card) => card.dataset.name)")
    return names


def sections(page: Page) -> list[str]:
    return page.locator(".chart-section h2").all_text_contents()


def filter_box(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Filter metrics")


def until(page: Page, seen: Callable[[Page], object], wanted: object) -> None:
    """Wait, boundedly, until the page shows that."""
    for _ in range(100):
        if seen(page) == wanted:
            return
        page.wait_for_timeout(50)
    assert seen(page) == wanted


def kept(page: Page) -> None:
    expect(page.get_by_role("status").filter(has_text="kept for you")).to_be_visible()


def test_the_link_that_mlflows_client_prints_leads_to_the_run(seat: Seat, plain: str) -> None:
    page = seat.go(f"/mlflow/#/experiments/0/runs/{plain}")
    page.wait_for_url(f"**/runs/{plain}/")
    expect(page.get_by_role("heading", name="plain-charts")).to_be_visible()


def test_a_metric_is_drawn_over_the_one_that_the_script_named(seat: Seat, office: Yard) -> None:
    writer, steps = Writer(), np.arange(0, 40, dtype=np.int64)
    values = np.stack([4 / (steps + 1), steps / 4], axis=1)
    frames = [
        writer.begin(), writer.frame("description", metrics={"val/loss": {"x": "epoch"}, "lr": {"x": "nothing"}}),
        *writer.points(["val/loss", "epoch"], steps, START_S + steps, values),
        *writer.points(["lr"], steps, START_S + steps, values[:, :1]), writer.end(),
    ]  # fmt: skip
    run = plant(office.http, "over-epochs", frames, [writer])
    page = seat.go(f"/runs/{run}/")
    for name, last in (("val/loss", 9.75), ("lr", 39)):  # what it is drawn over is not there: over steps
        until(page, lambda page, name=name: max((one["step"] for one in drawn(page, name)), default=0), last)


def test_a_panel_with_an_expression_is_made_moved_kept_and_undone(seat: Seat, plain: str) -> None:
    page = seat.go(f"/runs/{plain}/")
    page.get_by_role("button", name="Panel", exact=True).click()
    dialog = page.get_by_role("dialog", name="Add a panel")
    dialog.get_by_label("Lines").fill("val/loss / (train/loss")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_have_text("Line 1: a closing bracket is missing, at character 23.")
    dialog.get_by_label("Lines").fill("val/loss / train/loss\nema(rank/step_time_s, 0.9)")
    dialog.get_by_label("Title").fill("How far apart")
    dialog.get_by_role("button", name="Save").click()
    panel = page.get_by_role("article", name="How far apart")
    expect(panel.get_by_role("row")).to_have_count(1 + 1 + 2)
    expect(panel.get_by_role("rowheader", name="val/loss / train/loss")).to_be_visible()
    assert sections(page)[0] == "Panels"
    panel.get_by_role("application").focus()
    page.keyboard.press("Shift+Alt+ArrowDown")
    until(page, lambda page: titles(page)[0].startswith("panel:") and sections(page)[0], "train & val")
    expect(panel.get_by_role("application")).to_be_focused()
    kept(page)
    page.reload()
    expect(panel.get_by_role("row")).to_have_count(1 + 1 + 2)
    panel.locator(".chart-head").hover()  # which shows its tools
    panel.get_by_role("button", name="Remove").click()
    expect(panel).to_have_count(0)
    page.get_by_text("How far apart was removed.").locator("..").get_by_role("button", name="Undo").click()
    expect(panel).to_be_visible()
    page.evaluate(AXE.read_text())
    assert barriers(page) == []


def test_a_projects_layout_is_what_others_see_until_they_have_their_own(sit: Sit, office: Yard, plain: str) -> None:
    page = sit().go(f"/runs/{plain}/")
    try:
        page.get_by_role("button", name="Layout").click()
        page.get_by_role("button", name="Add a section").click()
        page.locator(".chart-section").first.hover()
        page.get_by_role("button", name="Rename the section").first.click()
        page.get_by_role("textbox", name="Name of the section").fill("At a glance")
        page.keyboard.press("Enter")
        until(page, lambda page: sections(page)[0], "At a glance")
        expect(page.get_by_role("textbox", name="Name of the section")).to_have_count(0)
        head = chart(page, "optim/lr").locator(".chart-head")
        # The headless Chromium of the tests begins no drag of its own.
        carried, target = page.evaluate_handle("new DataTransfer()"), page.locator(".chart-section").first
        head.dispatch_event("dragstart", {"dataTransfer": carried})
        target.dispatch_event("dragover", {"dataTransfer": carried})
        target.dispatch_event("drop", {"dataTransfer": carried})
        until(page, lambda page: titles(page)[0], "optim/lr")
        page.get_by_role("button", name="Layout").click()
        page.get_by_role("button", name="Save as the project's layout").click()
        expect(page.get_by_text("has this one now")).to_be_visible()
        kept(page)
        office.http.put("/projects/default/workspace", json={"state": {}}).raise_for_status()
        page.reload()
        until(page, lambda page: sections(page)[0], "At a glance")
    finally:
        office.http.put("/projects/default/layout", json={"state": {}}).raise_for_status()


def test_the_page_of_a_run_makes_few_requests(seat: Seat, wide: str) -> None:
    asked: list[str] = []
    seat.page.on("request", lambda request: asked.append(request.url))
    page = seat.go(f"/runs/{wide}/")
    expect(page.locator(".chart-card canvas").first).to_be_visible()
    page.wait_for_load_state("networkidle")
    assert len(asked) <= 12, asked


def test_a_view_is_in_the_address_and_kept_for_the_next_visit(sit: Sit, plain: str) -> None:
    page = sit().go(f"/runs/{plain}/")
    expect(chart(page, "train/loss")).to_be_visible()
    slider = page.get_by_role("slider", name="Amount of smoothing")
    for key in ("End", "ArrowLeft"):
        slider.press(key)
    expect(page.get_by_role("combobox", name="Smoothing")).to_have_value("ema")
    expect(page.get_by_role("spinbutton", name="Amount of smoothing")).to_have_value("0.998")
    page.get_by_label("Horizontal axis").select_option("relative")
    page.get_by_role("checkbox", name="log y").check()
    chart(page, "optim/lr").locator(".chart-head").hover()
    chart(page, "optim/lr").get_by_role("button", name="Pin").click()
    until(page, sections, ["Pinned", "train & val", "rank", "optim"])
    page.locator(".chart-section summary").filter(has_text="train & val").press("Enter")
    expect(chart(page, "train/loss")).to_be_hidden()
    kept(page)
    for said in ("x=relative", "smooth=ema%3A0.998", "logy=1", "pin=optim%2Flr"):
        expect(page).to_have_url(re.compile(re.escape(said)))
    again = sit().go(f"/runs/{plain}/")
    expect(chart(again, "optim/lr")).to_be_visible()
    expect(chart(again, "train/loss")).to_be_hidden()
    expect(again.get_by_role("spinbutton", name="Amount of smoothing")).to_have_value("0.998")
    expect(again.get_by_label("Horizontal axis")).to_have_value("relative")
    expect(again.get_by_role("checkbox", name="log y")).to_be_checked()
    assert sections(again)[0] == "Pinned"


def test_an_address_wins_over_what_was_kept(sit: Sit, plain: str) -> None:
    page = sit().go(f"/runs/{plain}/?x=time&metrics=loss")
    expect(page.get_by_label("Horizontal axis")).to_have_value("time")
    until(page, titles, ["train/loss", "val/loss"])
    page.get_by_label("log x", exact=True).check()
    kept(page)
    other = sit().go(f"/runs/{plain}/?x=relative&metrics=")
    expect(other.get_by_label("Horizontal axis")).to_have_value("relative")
    expect(other.get_by_label("log x", exact=True)).not_to_be_checked()
    expect(chart(other, "optim/lr")).to_be_visible()
    bare = sit().go(f"/runs/{plain}/")
    expect(bare.get_by_label("log x", exact=True)).to_be_checked()
    expect(bare.get_by_label("Horizontal axis")).to_have_value("step")


def test_a_link_holds_the_whole_view_and_nothing_of_what_its_reader_kept(sit: Sit, plain: str, office: Yard) -> None:
    page = sit().go(f"/runs/{plain}/")
    expect(page).to_have_url(re.compile(r"\?x=step$"))
    as_at_the_start = page.url
    kept_by_the_reader = {
        "axis": "time",
        "isLogY": True,
        "smoothing": {"kind": "ema", "amount": 0.9},
        "filter": "lr",
        "pinned": ["optim/lr"],
        "collapsed": ["train & val"],
        "charts": {"train/loss": {"isLogX": True}},
    }
    office.http.put("/projects/default/workspace", json={"state": kept_by_the_reader}).raise_for_status()
    reader = sit().go(as_at_the_start.removeprefix(office.up.url))
    expect(chart(reader, "train/loss")).to_be_visible()
    expect(reader.get_by_label("Horizontal axis")).to_have_value("step")
    expect(reader.get_by_role("checkbox", name="log y")).not_to_be_checked()
    expect(reader.get_by_role("combobox", name="Smoothing")).to_have_value("none")
    expect(filter_box(reader)).to_have_value("")
    assert sections(reader)[0] != "Pinned"
    reader.get_by_label("no outliers").check()
    kept(reader)
    state = office.get("/projects/default/workspace")["state"]
    assert state == {**kept_by_the_reader, "ignoreOutliers": True}, "a link of others changes nothing that is kept"


def test_a_scale_of_compare_does_not_come_back_on_the_page_of_a_run(sit: Sit, plain: str, wide: str) -> None:
    page = sit().go(f"/runs/compare/?run={plain}&run={wide}")
    expect(chart(page, "train/loss")).to_be_visible()
    page.get_by_role("button", name="View").click()
    page.get_by_role("checkbox", name="log y").check()
    page.keyboard.press("Escape")
    kept(page)
    chart(page, "optim/lr").locator(".chart-head").hover()
    with page.expect_request_finished(
        lambda request: request.method == "PUT" and "optim/lr" in (request.post_data or "")
    ):
        chart(page, "optim/lr").get_by_role("button", name="Pin").click()
    run = sit().go(f"/runs/{plain}/")
    until(run, lambda run: sections(run)[:1], ["Pinned"])
    expect(run.get_by_role("checkbox", name="log y")).not_to_be_checked()
    again = sit().go(f"/runs/compare/?run={plain}&run={wide}")
    again.get_by_role("button", name="View").click()
    expect(again.get_by_role("checkbox", name="log y")).to_be_checked()


def test_the_filter_takes_words_and_patterns_and_says_what_it_does_not_take(seat: Seat, plain: str) -> None:
    page = seat.go(f"/runs/{plain}/")
    expect(chart(page, "train/loss")).to_be_visible()
    page.keyboard.press("/")
    expect(filter_box(page)).to_be_focused()
    page.keyboard.type("^(train|optim)/[al]")
    until(page, titles, ["train/loss", "train/accuracy", "optim/lr"])
    filter_box(page).fill("LOSS(")
    expect(page.get_by_text("is no regular expression: taken as plain words.")).to_be_visible()
    expect(page.get_by_text("No metric of 6 fits “LOSS(”.")).to_be_visible()
    page.get_by_role("button", name="Clear the filter").click()
    until(page, lambda page: len(titles(page)), 6)
    filter_box(page).fill("loss")
    until(page, titles, ["train/loss", "val/loss"])
    filter_box(page).press("Escape")
    expect(filter_box(page)).to_have_value("")
    until(page, lambda page: len(titles(page)), 6)


def test_a_pattern_that_explodes_is_ended_and_the_page_stays_free(seat: Seat, odd: str) -> None:
    page = seat.go(f"/runs/{odd}/")
    until(page, lambda page: len(titles(page)), len(ODD))
    filter_box(page).fill(EXPLODING)
    expect(page.get_by_text(f"“{EXPLODING}” is too slow for these names: all are shown.")).to_be_visible()
    assert len(titles(page)) == len(ODD)
    filter_box(page).fill("emo.i")
    until(page, titles, ["emoji/🚂"])


def test_names_are_text_whatever_is_in_them(sit: Sit, odd: str) -> None:
    page = sit(viewport=PHONE).go(f"/runs/{odd}/")
    until(page, lambda page: sorted(titles(page)), sorted(ODD))
    assert page.evaluate(TOO_WIDE) == []
    for name in ODD:
        expect(chart(page, name)).to_be_attached()
    assert page.locator("main img, main script:not([type='application/json'])").count() == 0


def test_only_charts_in_view_are_drawn(seat: Seat, wide: str) -> None:
    page = seat.go(f"/runs/{wide}/")
    expect(chart(page, "train/metric_0").locator("canvas")).to_be_visible()
    assert len(titles(page)) == NUM_WIDE
    assert page.locator(".chart-card canvas").count() < 30
    last = chart(page, f"train/metric_{NUM_WIDE - 1}")
    last.scroll_into_view_if_needed()
    expect(last.locator("canvas")).to_be_visible()
    expect(chart(page, "train/metric_0").locator("canvas")).to_have_count(0)
    assert page.locator(".chart-card canvas").count() < 30


def test_what_was_set_can_be_taken_back(seat: Seat, plain: str) -> None:
    page = seat.go(f"/runs/{plain}/?zoom=step:50-100&logy=1&smooth=gaussian:0.5&outliers=1&ranks=band")
    expect(page.get_by_label("rank band")).to_be_checked()
    page.get_by_role("button", name="Reset zoom").click()
    expect(page.get_by_role("button", name="Reset zoom")).to_be_hidden()
    expect(page).to_have_url(re.compile(r"^(?!.*zoom=)"))
    page.get_by_role("button", name="Reset", exact=True).click()
    expect(page.get_by_role("button", name="Reset", exact=True)).to_be_hidden()
    expect(page.get_by_role("checkbox", name="log y")).not_to_be_checked()
    expect(page).to_have_url(re.compile(rf"/runs/{plain}/\?x=step$"))


def test_on_a_phone_the_switches_are_behind_a_button(sit: Sit, plain: str) -> None:
    page = sit(viewport=PHONE).go(f"/runs/{plain}/")
    expect(chart(page, "train/loss")).to_be_visible()
    expect(page.get_by_label("Horizontal axis")).to_be_hidden()
    page.get_by_role("button", name="View").click()
    page.get_by_label("Horizontal axis").select_option("time")
    assert page.evaluate(TOO_WIDE) == []
    page.keyboard.press("Escape")
    expect(page.get_by_label("Horizontal axis")).to_be_hidden()
    expect(page).to_have_url(re.compile("x=time"))


def test_a_page_with_everything_set_shuts_nobody_out(sit: Sit, plain: str) -> None:
    seat = sit()
    page = seat.go(f"/runs/{plain}/?zoom=step:50-100&logy=1&smooth=ema:0.5&pin=train/loss&metrics=(&ranks=band")
    expect(page.get_by_text("is no regular expression")).to_be_visible()
    assert seat.watch.unexpected() == []
    seat.watch.expect("")
    page.evaluate(AXE.read_text())
    assert barriers(page) == []
    filter_box(page).fill("")
    expect(chart(page, "train/loss")).to_be_visible()
    assert barriers(page) == []


def test_a_run_that_was_deleted_meanwhile_is_said_to_be_and_its_lines_stay(seat: Seat, office: Yard) -> None:
    run_id = plant_points(office.http, "soon-gone", 300, [f"train/metric_{number}" for number in range(40)])
    page = seat.go(f"/runs/{run_id}/")
    first = chart(page, "train/metric_0")
    expect(first.locator("canvas")).to_be_visible()
    seat.watch.expect("404", "4404", "not allowed")
    assert office.http.delete(f"/runs/{run_id}").status_code == 204
    chart(page, "train/metric_39").scroll_into_view_if_needed()
    expect(page.get_by_text("soon-gone was deleted. What was loaded of it stays here until you leave")).to_be_attached()
    first.scroll_into_view_if_needed()
    assert first.evaluate("(card) => card.chart.points().length") == 300


def test_a_run_without_points_teaches_how_to_log_one(seat: Seat, office: Yard) -> None:
    writer = Writer()
    run_id = plant(office.http, "no-points", [writer.begin(), writer.end()], [writer])
    page = seat.go(f"/runs/{run_id}/")
    expect(page.get_by_text("This run ended without logging a point.")).to_be_visible()
    expect(page.get_by_text('trainyard.log({"train/loss": loss}, step=step)')).to_be_visible()


def test_a_list_that_does_not_come_is_asked_for_again(seat: Seat, plain: str) -> None:
    page = seat.page
    seat.watch.expect("the list of series did not come", "net::ERR_FAILED", "/api/v1/series?run")
    page.route("**/api/v1/series?run=*", lambda route: route.abort())
    seat.go(f"/runs/{plain}/")
    expect(page.get_by_text("The list of metrics did not come. The page goes on asking")).to_be_visible()
    page.unroute("**/api/v1/series?run=*")
    expect(chart(page, "train/loss")).to_be_visible()
    expect(page.get_by_text("The list of metrics did not come.")).to_be_hidden()
