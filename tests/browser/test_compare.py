"""Which run is better, and why: chosen in the table, seen in one chart, grouped, sent to a colleague."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from benchmarks.load.planting import Writer, plant, plant_points
from tests.browser.conftest import Seat, Sit, scripted, tiny
from tests.browser.test_launching import chart, drawn
from tests.browser.test_pages import AXE, barriers
from tests.up_process import wait_until
from tests.whole.runs import Yard

NAMES = ("train/loss", "val/loss")


@pytest.fixture(scope="module")
def pair(office: Yard) -> dict[str, str]:
    """Two runs by their names, with an odd value in one."""
    spikes = {"pair-one": {10: 50.0}, "pair-two": {}}
    return {name: plant_points(office.http, name, 400, NAMES, spikes=spikes[name]) for name in spikes}


@pytest.fixture(scope="module")
def trio(office: Yard) -> dict[str, str]:
    """Three trained runs, two of them with one learning rate."""
    rates = {"trio-slow": 1e-4, "trio-fast": 3e-3, "trio-fast-too": 3e-3}
    ids = {name: office.submit(tiny(name, steps=15, learning_rate=rate)) for name, rate in rates.items()}
    for run_id in ids.values():
        assert office.wait_for_end(run_id)["status"] == "SUCCEEDED"
    return ids


@pytest.fixture
def fleeting(office: Yard) -> Iterator[str]:
    run_id = plant_points(office.http, "pair-fleeting", 50, NAMES)
    yield run_id
    office.http.delete(f"/runs/{run_id}")


def address(*ids: str) -> str:
    return "/runs/compare/?" + "&".join(f"run={one}" for one in ids)


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("grid", name="Runs").get_by_role("row").filter(has=page.get_by_text(name, exact=True))


def expect_lines(page: Page, *labels: str, name: str = "train/loss") -> None:
    """Return when the chart has these lines and no others."""
    drawn_now = "(card) => (card.chart.rows ?? []).map(({label}) => label).sort()"
    expect(chart(page, name)).to_be_visible()
    wait_until(lambda: chart(page, name).evaluate(drawn_now) == sorted(labels), f"{name} shows {labels}")


def expect_runs(page: Page, *ids: str) -> None:
    """Return when the chart has lines of these runs and of no others."""
    expect(chart(page, "train/loss")).to_be_visible()
    wait_until(lambda: {one["run"] for one in drawn(page, "train/loss")} == set(ids), f"{ids} are drawn")


def legend(page: Page) -> Locator:
    return chart(page, "train/loss").locator(".chart-legend tbody tr")


def test_runs_are_chosen_by_keyboard_and_seen_in_the_same_chart(seat: Seat, pair: dict[str, str]) -> None:
    page = seat.go("/runs/?q=pair-")
    for name in pair:
        page.get_by_role("link", name=name, exact=True).focus()
        page.keyboard.press("x")
        expect(page.get_by_label(f"Select {name}", exact=True)).to_be_checked()
    page.reload()
    expect(page.get_by_role("link", name="Compare 2 runs")).to_be_visible()
    page.get_by_role("link", name="Compare 2 runs").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Compare", level=1)).to_be_visible()
    expect_lines(page, *pair)
    assert {point["run"] for point in drawn(page, "train/loss")} == set(pair.values())
    assert max(drawn(page, "train/loss"), key=lambda point: point["value"])["step"] == 10
    for name in pair:
        expect(legend(page).filter(has_text=name)).to_be_visible()
        expect(row(page, name)).to_contain_text("succeeded")


def test_a_selection_is_one_and_stays_under_another_filter(seat: Seat, pair: dict[str, str]) -> None:
    page = seat.go("/runs/?q=pair-")
    page.get_by_label("Select pair-one").check()
    page.get_by_role("link", name="pair-two", exact=True).focus()
    page.keyboard.press("x")
    link, bar = page.get_by_role("link", name="Compare 2 runs"), page.get_by_role("region", name="Selected runs")
    expect(link).to_have_attribute("href", re.compile(f"run={pair['pair-one']}&run={pair['pair-two']}&hide=$"))
    expect(bar).to_contain_text("2 selected")
    page.get_by_label("Filter by words or fields").fill("pair-two")
    expect(page.get_by_role("link", name="pair-one", exact=True)).to_have_count(0)
    expect(bar).to_contain_text("2 selected, 1 not in view")
    bar.get_by_role("button", name="Archive").click()
    dialog = page.get_by_role("dialog", name="Archive 2 runs, 1 not in view?")
    dialog.get_by_role("button", name="Archive").click()
    expect(page.get_by_text("Archive: done for 2 runs.")).to_be_visible()
    expect(bar).to_be_hidden()
    for run_id in pair.values():
        unarchived = page.request.post(f"{seat.url}/runs/{run_id}/do/unarchive/", headers=csrf(page))
        assert unarchived.ok


def test_a_question_says_how_many_are_not_in_view_and_these_are_left_out_by_a_button(
    seat: Seat, pair: dict[str, str]
) -> None:
    page = seat.go("/runs/?q=pair-")
    page.get_by_label("Select all rows that are loaded").check()
    page.get_by_label("Filter by words or fields").fill("pair-two")
    bar = page.get_by_role("region", name="Selected runs")
    expect(bar).to_contain_text("2 selected, 1 not in view")
    bar.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("dialog")).to_contain_text("Stop 2 runs, 1 not in view?")
    page.keyboard.press("Escape")
    bar.get_by_role("button", name="Keep the 1 in view").click()
    link = bar.get_by_role("link", name="Compare 1 run")
    expect(link).to_have_attribute("href", re.compile(rf"\?run={pair['pair-two']}&hide=$"))
    expect(bar.get_by_role("button", name="Keep")).to_be_hidden()
    sent = bar.locator("[data-others] input").evaluate_all("(all) => all.map((one) => one.value)")
    assert sent == [pair["pair-two"]]
    bar.get_by_label("Clear the selection").click()
    expect(bar).to_be_hidden()


def test_runs_are_found_while_one_types(seat: Seat, pair: dict[str, str]) -> None:
    page = seat.go("/runs/")
    box = page.get_by_label("Filter by words or fields")
    page.evaluate("window.isTheSame = true")
    box.press_sequentially("pair-o")
    expect(page.get_by_role("link", name="pair-one", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="pair-two", exact=True)).to_have_count(0)
    expect(page).to_have_url(re.compile(r"/runs/\?filter=pair-o$"))
    expect(box).to_be_focused()
    expect(box).to_have_value("pair-o")
    for link, wanted in (("Succeeded", "view=succeeded&filter=pair-o"), ("CSV", "filter=pair-o")):
        expect(page.get_by_role("link", name=link, exact=True)).to_have_attribute("href", re.compile(wanted))
    box.press_sequentially(" and name =")
    expect(page.get_by_text("Here a value is expected")).to_be_visible()
    expect(box).to_have_accessible_description(re.compile("Here a value is expected"))
    expect(box).to_have_value("pair-o and name =")
    expect(page.get_by_role("link", name="pair-one", exact=True)).to_be_visible()
    box.press_sequentially(" pair-two or name ~ R-TW")
    expect(page.get_by_role("link", name="pair-two", exact=True)).to_be_visible()
    expect(page.get_by_text("is expected")).to_have_count(0)
    box.press("Enter")
    box.fill("")
    expect(page.get_by_role("link", name="pair-one", exact=True)).to_be_visible()
    expect(page).to_have_url(re.compile(r"/runs/$"))
    assert page.evaluate("window.isTheSame"), "the page was never loaded again"


def csrf(page: Page) -> dict[str, str]:
    token = page.locator("meta[name=csrf-token]").get_attribute("content")
    return {"X-CSRFToken": token or "", "X-Requested-With": "fetch", "Referer": page.url}


def test_an_eye_and_a_colour_stay_as_they_were_chosen(seat: Seat, pair: dict[str, str]) -> None:
    page = seat.go(address(*pair.values()))
    expect_lines(page, *pair)
    page.get_by_role("checkbox", name="Show pair-two").uncheck()
    expect_lines(page, "pair-one")
    expect(page).to_have_url(re.compile(f"hide={pair['pair-two']}"))
    dot = row(page, "pair-one").get_by_role("button", name="Colour of pair-one")
    dot.focus()
    page.keyboard.press("Enter")
    page.get_by_role("group", name="Colour of pair-one").get_by_role("button", name="pink").press("Enter")
    expect(row(page, "pair-one")).to_have_class(re.compile("series-4"))
    expect(dot).to_be_focused()
    expect(page.get_by_text("kept for you")).to_be_visible()
    page.reload()
    expect_lines(page, "pair-one")
    expect(row(page, "pair-one")).to_have_class(re.compile("series-4"))
    page.get_by_role("checkbox", name="Show pair-two").check()
    expect_lines(page, *pair)
    seat.go("/runs/?q=pair-one")
    expect(page.get_by_role("row").filter(has_text="pair-one")).to_have_class(re.compile("series-4"))


def test_a_run_is_found_by_its_name_and_taken_out_again(seat: Seat, pair: dict[str, str]) -> None:
    page = seat.go(address(pair["pair-one"]))
    expect_runs(page, pair["pair-one"])
    field = page.get_by_role("combobox", name="Add a run")
    field.fill("pair-t")
    expect(page.get_by_role("listbox", name="Runs of that name").get_by_role("option")).to_contain_text("pair-two")
    field.press("Enter")
    expect_lines(page, *pair)
    expect(page).to_have_url(re.compile(f"run={pair['pair-one']}&run={pair['pair-two']}"))
    expect(page.get_by_role("checkbox", name="Show pair-two")).to_be_focused()
    page.get_by_role("button", name="Take pair-one out").press("Enter")
    expect(row(page, "pair-one")).to_have_count(0)
    expect_runs(page, pair["pair-two"])


def test_groups_have_one_line_each(seat: Seat, trio: dict[str, str]) -> None:
    page = seat.go(address(*trio.values()))
    expect_lines(page, *trio)
    page.get_by_role("button", name="Group by").press("Enter")
    page.get_by_role("checkbox", name="train.learning_rate").check()
    page.keyboard.press("Escape")
    expect_lines(page, "learning_rate 0.0001", "learning_rate 0.003")
    heads = page.locator(".grid-group")
    expect(heads.filter(has_text="learning_rate 0.003")).to_contain_text("2 runs")
    expect(heads.filter(has_text="learning_rate 0.0001")).to_contain_text("1 run")
    page.get_by_label("Band around the mean of a group").select_option("ci")
    expect(page).to_have_url(re.compile("group=train.learning_rate&band=ci"))
    grid = page.get_by_role("grid", name="Runs")
    grid.focus()
    for key in ("Control+Home", "ArrowUp", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    expect(page).to_have_url(re.compile("sort=value"))
    expect(grid.get_by_role("columnheader", name="train/loss")).to_have_attribute("aria-sort", "ascending")
    expect(heads.first).to_contain_text("learning_rate 0.003")
    page.get_by_role("button", name=re.compile("^By")).press("Enter")
    page.get_by_role("checkbox", name="train.learning_rate").uncheck()
    expect_lines(page, *trio)
    expect(heads).to_have_count(0)
    page.get_by_role("button", name="Hide all").click()
    page.get_by_role("checkbox", name="Show trio-slow").check()
    expect_lines(page, "trio-slow")
    page.get_by_role("button", name="Show all").click()
    expect_lines(page, *trio)


def test_the_specs_say_what_differs_from_a_base(seat: Seat, trio: dict[str, str]) -> None:
    page = seat.go(address(*trio.values()))
    lines = page.get_by_role("region", name="Specs of the runs").locator("tbody tr")
    expect(lines.filter(has_text="train.learning_rate")).to_be_visible()
    num_different = lines.count()
    others = lines.filter(has_text="train.learning_rate").locator("td.is-other")
    expect(others).to_have_text(["0.003", "0.003"])
    page.get_by_label("Hold the others against trio-fast", exact=True).check()
    expect(others).to_have_text(["0.0001"])
    page.get_by_label("differences only").uncheck()
    expect(lines.filter(has_text="train.batch_size")).to_be_visible()
    assert lines.count() > num_different


def test_one_is_made_the_baseline_and_the_difference_is_read(seat: Seat, trio: dict[str, str]) -> None:
    page = seat.go("/runs/compare/")
    page.get_by_label("Compare the runs that fit this filter").fill("trio-fast")
    page.get_by_role("button", name="Compare", exact=True).click()
    expect_lines(page, "trio-fast", "trio-fast-too")
    page.get_by_label("Which metric the list shows").select_option("val/loss")
    page.get_by_role("button", name="Make trio-fast the baseline").press("Enter")
    expect(row(page, "trio-fast")).to_contain_text("baseline")
    expect(row(page, "trio-fast-too")).to_contain_text(re.compile("than baseline|The same as baseline"))
    expect(page).to_have_url(re.compile(f"filter=trio-fast.*base={trio['trio-fast']}"))
    field = page.get_by_role("combobox", name="Add a run")
    field.fill("trio-slow")
    expect(page.get_by_role("listbox", name="Runs of that name").get_by_role("option")).to_contain_text("trio-slow")
    field.press("Enter")
    expect_lines(page, *trio)
    expect(row(page, "trio-slow")).to_contain_text(re.compile(r"worse:\s+[0-9,.]+ % higher than baseline"))
    page.reload()
    expect(row(page, "trio-slow")).to_contain_text("higher than baseline")
    page.get_by_role("button", name="Take trio-fast-too out").click()
    expect_lines(page, "trio-fast", "trio-slow")
    page.reload()
    expect_lines(page, "trio-fast", "trio-slow")
    expect(page.get_by_text("Noise cannot be told from one seed each.")).to_be_visible()
    page.get_by_role("button", name="No baseline").click()
    expect(page.get_by_text("than baseline")).to_have_count(0)


def test_plots_over_runs_are_brushed_by_keyboard_and_rows_and_lines_follow(seat: Seat, trio: dict[str, str]) -> None:
    page = seat.go(address(*trio.values()))
    expect_lines(page, *trio)
    page.get_by_text("Plots over runs").click()
    expect(page.get_by_label("A line for each run through its values").locator("canvas")).to_be_visible()
    page.get_by_text("Choose by numbers").click()
    page.get_by_label("learning_rate is").select_option("0.003")
    expect(page.get_by_text("2 of 3 runs are chosen.")).to_be_visible()
    chart(page, "train/loss").scroll_into_view_if_needed()  # out of view nothing is drawn
    expect_lines(page, "trio-fast", "trio-fast-too")
    expect(page.get_by_role("checkbox", name="Show trio-slow")).not_to_be_checked()
    page.get_by_text("As a table").click()
    rows = page.get_by_role("region", name="The runs as a table").locator("tbody tr")
    expect(rows).to_have_count(2)
    page.get_by_label("Up", exact=True).select_option("val/loss")
    page.get_by_role("button", name="Show all").last.press("Enter")
    expect(rows).to_have_count(3)
    chart(page, "train/loss").scroll_into_view_if_needed()
    expect_lines(page, *trio)
    expect(page.get_by_text("at least 4 runs with a value; there are 3")).to_be_visible()


def test_code_and_logs_of_two_runs_stand_side_by_side(
    seat: Seat, office: Yard, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ids = []
    for name in ("side-one", "side-two"):
        folder = tmp_path_factory.mktemp("code")
        (folder / "own.py").write_text(f"NAME = '{name}'\n")
        ids.append(office.submit(scripted(office, folder, name, "--fail")))
    for run_id in ids:
        assert office.wait_for_end(run_id)["status"] == "FAILED"
    page = seat.go(address(*ids))
    expect_lines(page, "side-one", "side-two")
    page.get_by_role("heading", name="Code").click()
    changes = page.get_by_label("Changes against the first run")
    expect(changes).to_contain_text("-NAME = 'side-one'")
    expect(changes).to_contain_text("+NAME = 'side-two'")
    page.get_by_role("heading", name="Logs").click()
    for name in ("side-one", "side-two"):
        expect(page.get_by_label(f"The end of the log of {name}")).to_contain_text("the boiler is cold")
    page.get_by_role("checkbox", name="Show side-two").uncheck()
    expect(page.get_by_text("Two to four runs stand side by side").first).to_be_visible()
    seat.watch.expect("")  # from here on the console has what axe does
    page.evaluate(AXE.read_text())
    assert barriers(page) == []


def test_a_run_that_is_deleted_meanwhile_says_so_and_stays(
    seat: Seat, office: Yard, pair: dict[str, str], fleeting: str
) -> None:
    seat.watch.expect("404")
    page = seat.go(address(pair["pair-one"], fleeting))
    expect_lines(page, "pair-one", "pair-fleeting")
    num_points = len(drawn(page, "train/loss"))
    assert office.http.delete(f"/runs/{fleeting}").status_code in (200, 204)
    expect(row(page, "pair-fleeting")).to_contain_text("Deleted.")
    assert len(drawn(page, "train/loss")) == num_points
    page.get_by_role("button", name="Take pair-fleeting out").click()
    expect(row(page, "pair-fleeting")).to_have_count(0)
    expect_runs(page, pair["pair-one"])


def test_runs_that_go_on_grow_beside_each_other(
    seat: Seat, office: Yard, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ids = [office.submit(scripted(office, tmp_path_factory.mktemp("code"), name)) for name in ("grow-one", "grow-two")]
    for run_id in ids:
        office.wait_for_step(run_id, 2)
    page = seat.go(address(*ids))
    expect_lines(page, "grow-one", "grow-two")
    page.evaluate("window.isTheSame = true")

    def last() -> dict[str, int]:
        return {point["run"]: point["step"] for point in drawn(page, "train/loss")}

    wait_until(lambda: len(last()) == 2, "both are drawn")
    before = last()
    wait_until(lambda: all(last()[run] > before[run] + 2 for run in ids), "both grow")
    office.post(f"/runs/{ids[0]}/stop")
    expect(row(page, "grow-one")).to_contain_text("cancelled")
    office.post(f"/runs/{ids[1]}/stop")
    assert page.evaluate("window.isTheSame") is True, "nothing was loaded again"


def test_long_names_of_other_scripts_fit(seat: Seat, office: Yard, pair: dict[str, str]) -> None:
    writer = Writer()
    name = "שלום & 🚂 " + "long" * 20
    run_id = plant(office.http, name, [writer.begin(), writer.end()], [writer])
    page = seat.go(address(pair["pair-one"], run_id))
    expect(row(page, name)).to_be_visible()
    too_wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert page.evaluate(too_wide) is False


def test_on_a_phone_the_list_is_a_sheet_above(sit: Sit, pair: dict[str, str]) -> None:
    seat = sit(viewport={"width": 390, "height": 844})
    page = seat.go(address(*pair.values()))
    expect_lines(page, *pair)
    opener = page.get_by_role("button", name="Runs", exact=True)
    expect(opener).to_have_attribute("aria-expanded", "false")
    expect(row(page, "pair-one")).to_be_hidden()
    opener.click()
    expect(row(page, "pair-one")).to_be_visible()


def test_the_list_is_there_again_when_the_window_is_wide_again(sit: Sit, pair: dict[str, str]) -> None:
    seat = sit(viewport={"width": 390, "height": 844})
    page = seat.go(address(*pair.values()))
    expect_lines(page, *pair)
    expect(row(page, "pair-one")).to_be_hidden()
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(row(page, "pair-one")).to_be_visible()


def test_a_plot_is_as_high_as_its_place_beside_cards_that_grew_first(seat: Seat, pair: dict[str, str]) -> None:
    page = seat.go(address(*pair.values()))
    heights = """(card) => [card.chart.plot.frame.height, card.chart.host.clientHeight]"""
    for name in NAMES:
        expect_lines(page, *pair, name=name)
        wait_until(lambda name=name: len(set(chart(page, name).evaluate(heights))) == 1, f"{name} fits its place")
