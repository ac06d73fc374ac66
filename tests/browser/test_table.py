"""The table of runs, by visible labels and by keys alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from benchmarks.load.planting import START_S, Writer, plant
from tests.browser.conftest import Seat, Sit
from tests.browser.test_pages import AXE, PHONE, barriers
from tests.up_process import ROOT, Up
from tests.whole.runs import Yard, example

HOSTS = ("depot", "harbour", "quarry")
NUM_RUNS = 60


@pytest.fixture(scope="module")
def many(office: Yard) -> None:
    """Runs of three hosts; the losses go down with the number in the name."""
    for number in range(NUM_RUNS):
        send(office, f"wagon-{number:03d}", 3 - number / NUM_RUNS, HOSTS[number % len(HOSTS)])


def send(office: Yard, name: str, loss: float, host: str) -> str:
    writer, steps = Writer(), np.arange(1, 4)
    values = np.array([[loss + 2, loss + 2.1], [loss + 1, loss + 1.1], [loss, loss + 0.1]])
    frames = writer.points(["train/loss", "val/loss"], steps, START_S + steps, values)
    return plant(office.http, name, [writer.begin(), *frames, writer.end()], [writer], host=host)


def grid(page: Page) -> Locator:
    return page.get_by_role("treegrid", name="Runs")  # sweeps and groups fold


def active(page: Page) -> Locator:
    return page.locator(".is-active")


def test_rows_come_as_one_goes_down_by_keys_and_one_stays_in_the_cell(seat: Seat, many: None) -> None:
    page = seat.go("/runs/?filter=wagon-0&sort=name")
    expect(page.get_by_text(f"{NUM_RUNS} runs")).to_be_visible()
    grid(page).focus()
    page.keyboard.press("Control+End")
    expect(grid(page).get_by_role("link", name=f"wagon-{NUM_RUNS - 1:03d}", exact=True)).to_be_in_viewport()
    page.keyboard.press("Control+Home")
    page.keyboard.press("ArrowRight")
    expect(active(page)).to_contain_text("wagon-000")
    page.keyboard.press("x")
    page.keyboard.press("Shift+ArrowDown")
    bar = page.get_by_role("region", name="Selected runs")
    expect(bar).to_contain_text("2 selected")
    expect(grid(page).get_by_role("row", selected=True)).to_have_count(2)
    page.keyboard.press("PageDown")
    page.keyboard.press("PageDown")
    expect(active(page)).to_be_in_viewport()
    page.keyboard.press("Escape")
    expect(bar).to_be_hidden()
    page.keyboard.press("Control+Home")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"sort=-name"))
    expect(grid(page).get_by_role("row").nth(1)).to_contain_text(f"wagon-{NUM_RUNS - 1:03d}")
    expect(grid(page).get_by_role("columnheader", name="Name")).to_have_attribute("aria-sort", "descending")
    page.keyboard.press("Control+Home")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"wagon-{NUM_RUNS - 1:03d}")


def test_the_best_of_each_group_are_found_and_kept_as_a_view_by_keys_alone(seat: Seat, many: None) -> None:
    page = seat.go("/runs/")
    expect(page.get_by_role("status", name="How this page gets its news")).to_have_text("live")
    page.keyboard.press("/")
    page.keyboard.type("na")
    expect(page.get_by_role("option", name="name", exact=True)).to_be_visible()
    for key in ("ArrowDown", "Enter", "~", "Space", "w", "a", "g", "o", "n", "-", "0", "Enter"):
        page.keyboard.press(key)
    expect(page).to_have_url(re.compile(r"filter=name\+%7E\+wagon-0"))
    page.get_by_role("button", name="Columns", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Find a field")).to_be_focused()
    page.keyboard.type("val/loss.min")
    expect(page.get_by_role("checkbox", name="summary.val/loss.min")).to_be_visible()
    for key in ("ArrowDown", "Space"):
        page.keyboard.press(key)
    head = grid(page).get_by_role("columnheader", name="val/loss min")
    expect(head).to_be_visible()
    page.get_by_label("Find a field").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("local.host")
    expect(page.get_by_role("button", name="Group by local.host")).to_be_visible()
    for key in ("ArrowDown", "Tab", "Enter"):
        page.keyboard.press(key)
    expect(page.get_by_role("row").filter(has_text="host")).to_have_count(len(HOSTS))
    page.keyboard.press("ArrowUp")
    while page.locator("th.is-active").get_attribute("aria-label") != "val/loss min":
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(head).to_have_attribute("aria-sort", "ascending")
    page.keyboard.press("Control+Home")
    page.keyboard.press("Enter")
    expect(page.get_by_role("row").filter(has_text="host").first).to_have_attribute("aria-expanded", "true")
    for key in ("ArrowDown", "x", "ArrowDown", "x"):
        page.keyboard.press(key)
    expect(page.get_by_role("row", selected=True).get_by_role("link").first).to_have_text("wagon-059")
    expect(page.get_by_role("region", name="Selected runs")).to_contain_text("2 selected")
    page.get_by_role("button", name="Views").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Name of the view")).to_be_focused()
    page.keyboard.type("best by host")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="best by host")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="host").first).to_have_attribute("aria-expanded", "false")


def test_a_range_is_brushed_or_typed_and_a_text_picked_in_a_columns_menu(seat: Seat, many: None) -> None:
    page = seat.go("/runs/?filter=wagon-0&columns=name,summary.train/loss.last,local.host")
    page.get_by_role("button", name="Column train/loss last").click()
    menu = page.get_by_role("group", name="Column", exact=True)
    drawing, high = menu.get_by_role("img"), menu.get_by_role("textbox", name="To")
    expect(drawing).to_have_accessible_name(f"{NUM_RUNS} from 2.02 to 3")
    box = drawing.bounding_box()
    assert box
    page.mouse.move(box["x"] + 1, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2 - 2, box["y"] + 20, steps=4)
    assert float(high.input_value()) == pytest.approx(2 + 61 / 120, abs=0.01)
    page.mouse.up()
    expect(page.get_by_text(f"{NUM_RUNS // 2} runs")).to_be_visible()
    page.get_by_role("button", name="Column train/loss last").click()
    expect(drawing).to_have_accessible_name(f"{NUM_RUNS} from 2.02 to 3")  # all that it may be widened to
    high.fill("2.1")
    high.press("Enter")
    expect(page.get_by_text("6 runs")).to_be_visible()
    page.get_by_role("button", name="Column host").click()
    menu.get_by_role("button", name=f"{HOSTS[0]} 2").click()
    expect(page.get_by_text("2 runs")).to_be_visible()
    expect(page.get_by_label("Filter by words or fields")).to_have_value(
        re.compile(rf'<= 2\.1 and local\.host = "{HOSTS[0]}"$')
    )


def test_a_column_that_is_still_being_read_says_so_and_is_drawn_as_soon_as_it_is(seat: Seat, many: None) -> None:
    page = seat.go("/runs/?filter=wagon-0&columns=name,summary.train/loss.last")
    words, asked = "The values are being read: 40% of the runs so far.", []

    def hold(route: Route) -> None:
        asked.append(route.request.url)
        if len(asked) > 1:
            return route.continue_()
        return route.fulfill(status=202, content_type="text/html", body=f"<p>{words}</p>")

    page.route(re.compile("fragment=spread"), hold)
    page.get_by_role("button", name="Column train/loss last").click()
    menu = page.get_by_role("group", name="Column", exact=True)
    expect(menu.get_by_text(words)).to_be_visible()
    expect(menu.get_by_role("img")).to_have_accessible_name(f"{NUM_RUNS} from 2.02 to 3")
    assert len(asked) == 2


def test_a_range_narrows_each_side_of_an_or(seat: Seat, many: None) -> None:
    page = seat.go("/runs/?filter=name = wagon-001 or name = wagon-058&columns=name,summary.train/loss.last")
    page.get_by_role("button", name="Column train/loss last").click()
    menu = page.get_by_role("group", name="Column", exact=True)
    menu.get_by_role("textbox", name="From").fill("2.5")
    menu.get_by_role("button", name="Only these").click()
    expect(page.get_by_text("1 run", exact=True)).to_be_visible()
    expect(grid(page).get_by_role("link", name="wagon-001", exact=True)).to_be_visible()


def test_charts_of_what_the_table_shows_stand_beside_it_at_a_click(seat: Seat, many: None) -> None:
    scripts: list[str] = []
    seat.page.on("request", lambda request: scripts.append(request.url) if "/charts/" in request.url else None)
    page = seat.go("/runs/?filter=wagon-0&sort=name")
    expect(grid(page).get_by_role("row").nth(1)).to_contain_text("wagon-000")
    assert scripts == []
    pane = page.get_by_role("complementary", name="Charts")
    page.get_by_role("link", name="Charts", exact=True).click()
    expect(pane).to_contain_text("of the first 50 runs")
    lines = pane.get_by_role("article", name="train/loss").get_by_role("row")
    expect(lines).to_have_count(51)
    dot = grid(page).get_by_role("row", name="wagon-001").locator(".run-dot").first
    colour = dot.evaluate("one => getComputedStyle(one).backgroundColor")
    line = lines.filter(has_text="wagon-001")
    expect(line.locator(".dot")).to_have_css("background-color", colour)
    grid(page).get_by_text("wagon-001", exact=True).hover()
    expect(line).to_have_class(re.compile("is-lit"))
    assert "charts=1" in page.url
    page.get_by_role("combobox", name="Filter by words or fields").fill("name ~ wagon-00")
    expect(pane).to_contain_text("of 10 runs")
    expect(lines).to_have_count(11)
    page.reload()
    expect(lines).to_have_count(11)
    seat.watch.expect("")  # from here on the console has what axe does
    page.evaluate(AXE.read_text())
    assert barriers(page) == []
    pane.get_by_role("link", name="Close the charts").click()
    expect(pane).to_be_hidden()
    assert "charts" not in page.url


def test_25_rows_fit_a_desk_and_what_is_new_waits_while_one_reads(seat: Seat, many: None, office: Yard) -> None:
    page = seat.go("/runs/?filter=wagon")
    rows = grid(page).get_by_role("row").filter(has_text="wagon")
    expect(rows.nth(24)).to_be_in_viewport(ratio=0.95)
    grid(page).focus()
    top = rows.first.get_attribute("data-key")
    new = send(office, "wagon-new", 9.0, HOSTS[0])
    button = page.get_by_role("button", name="1 new run")
    expect(button).to_be_visible()
    assert rows.first.get_attribute("data-key") == top
    button.click()
    expect(rows.first).to_have_attribute("data-key", new)
    expect(button).to_be_hidden()
    expect(page.get_by_text(f"{NUM_RUNS + 1} runs")).to_be_visible()


def test_the_table_shuts_nobody_out_and_fits_a_phone(sit: Sit, many: None) -> None:
    seat = sit()
    seat.page.emulate_media(color_scheme="dark")
    page = seat.go("/runs/?filter=wagon-0&sort=-created,name&columns=status!,train.steps,summary.val/loss.min")
    grid(page).get_by_role("checkbox", name="Select wagon-059").check()
    seat.watch.expect("")  # from here on the console has what axe does
    page.evaluate(AXE.read_text())
    assert barriers(page) == []
    page.set_viewport_size(PHONE)
    expect(grid(page).get_by_role("link", name="wagon-059", exact=True)).to_be_in_viewport(ratio=0.95)
    assert barriers(page) == []


def test_the_table_of_jobs_is_used_by_the_same_keys(seat: Seat, office: Yard) -> None:
    for name in ("tender-a", "tender-b"):
        office.post("/jobs", {**example("hello-gpt"), "name": name})
    page = seat.go("/jobs/?q=tender")
    jobs = page.get_by_role("grid", name="Jobs")
    expect(jobs.get_by_role("row")).to_have_count(3)
    jobs.focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(jobs.get_by_role("columnheader", name="Name")).to_have_attribute("aria-sort", "descending")
    expect(page).to_have_url(re.compile(r"q=tender.*sort=-name"))
    page.keyboard.press("Control+Home")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    expect(jobs.get_by_role("button", name="Launch tender-b")).to_be_focused()
    page.keyboard.press("Escape")
    page.evaluate(AXE.read_text())
    assert barriers(page) == []
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="tender-b", level=1)).to_be_visible()


@pytest.fixture
def swept(office: Yard, running_trainyard: Up) -> Iterator[str]:
    """The id of a sweep of 40 trials."""
    place = {**os.environ, "TRAINYARD_HOME": str(running_trainyard.home)}
    command = [sys.executable, "-m", "benchmarks.load.long_sweep", "40"]
    key = subprocess.run(command, cwd=ROOT, env=place, capture_output=True, text=True, check=True).stdout.split()[-1]
    yield key
    for run in office.get("/runs?q=long-40-&limit=100")["items"]:
        office.http.delete(f"/runs/{run['id']}")
    office.http.delete(f"/sweeps/{key}")


def test_a_sweep_opens_in_the_table_of_runs_by_keys(seat: Seat, swept: str) -> None:
    page = seat.go("/runs/?filter=long-40&sort=name")
    expect(grid(page).get_by_role("row")).to_have_count(2)
    grid(page).focus()
    page.keyboard.press("ArrowRight")
    expect(grid(page).get_by_role("row").nth(1)).to_have_attribute("aria-expanded", "true")
    expect(grid(page).get_by_role("row")).to_have_count(42)
    expect(page).to_have_url(re.compile(rf"open={swept}"))
    page.keyboard.press("ArrowDown")
    page.keyboard.press("x")
    expect(page.get_by_role("region", name="Selected runs")).to_contain_text("1 selected")
    page.evaluate(AXE.read_text())
    assert barriers(page) == []
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    expect(grid(page).get_by_role("row")).to_have_count(2)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="long-40", level=1)).to_be_visible()


def test_members_and_nodes_are_tables_of_the_same_keys(seat: Seat) -> None:
    page = seat.go("/people/?project=default")
    members = page.get_by_role("grid", name="Members")
    members.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    role = members.get_by_label("Role of owner")
    expect(role).to_be_focused()
    expect(members.get_by_role("button", name="Change")).to_be_hidden()
    seat.watch.expect("409")
    role.select_option("Viewer")
    expect(page.get_by_text("the last owner")).to_be_visible()
    page.keyboard.press("Escape")
    expect(members).to_be_focused()
    page.get_by_label("Filter by name").fill("nobody-has-this")
    expect(page.get_by_text("No member has this in their name.")).to_be_visible()
    page.goto(f"{seat.url}/nodes/")
    page.get_by_role("navigation", name="How nodes are shown").get_by_role("link", name="Table").click()
    nodes = page.get_by_role("grid", name="Nodes")
    nodes.focus()
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Health")).to_be_visible()


def test_columns_that_are_chosen_faster_than_the_table_comes_are_all_there(seat: Seat, many: None) -> None:
    page, held = seat.go("/runs/?filter=wagon-0"), list[Route]()
    expect(grid(page).get_by_role("row").nth(1)).to_contain_text("wagon")
    page.route("**/runs/?*columns=*", lambda route: held.append(route) if len(held) < 2 else route.continue_())
    page.get_by_role("button", name="Columns", exact=True).click()
    search = page.get_by_label("Find a field")
    search.fill("val/loss")
    low, high = (page.get_by_role("checkbox", name=f"summary.val/loss.{one}") for one in ("min", "max"))
    low.check()
    search.fill("loss.m")  # the list is drawn anew while the table is on its way
    expect(low).to_be_checked()
    high.check()
    while len(held) < 2:
        page.wait_for_timeout(50)
    for route in held:
        route.continue_()
    for one in ("min", "max"):
        expect(grid(page).get_by_role("columnheader", name=f"val/loss {one}")).to_be_visible()
    page.go_back()
    expect(high).not_to_be_checked()  # the list stands open, and says what the table shows now
    expect(low).not_to_be_checked()
