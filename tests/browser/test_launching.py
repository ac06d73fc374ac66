"""From the form to the end of a run, in one browser: what a person does on the first day."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import SCRIPT, TINY, Seat, Sit, packed
from tests.browser.test_pages import PHONE
from tests.whole.runs import Yard


def test_a_run_is_launched_watched_read_and_stopped(seat: Seat) -> None:
    page = launch_by_form(seat, "first-day")
    watch_it_learn(seat)
    read_the_log(page)
    page.get_by_role("button", name="Stop", exact=True).click()
    dialog = page.get_by_role("dialog", name="Stop run first-day?")
    dialog.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("main").get_by_text("cancelled", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Restart")).to_be_visible()


def test_a_clone_with_another_learning_rate_is_three_clicks_and_shows_how_it_differs(
    seat: Seat, succeeded: str, office: Yard
) -> None:
    page = seat.go(f"/runs/{succeeded}/")
    page.get_by_role("main").get_by_role("link", name="Clone", exact=True).click()
    line = page.get_by_role("region", name="The run").locator(".difference")
    expect(line).to_have_text("Same as run well-done.")
    rate, launch = page.get_by_label("Learning rate", exact=True), page.get_by_role("button", name="Launch", exact=True)
    expect(rate).to_be_in_viewport(ratio=1)
    rate.click()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("0.004")
    expect(line).to_have_text("Differs from run well-done: learning_rate 0.003 → 0.004.")
    expect(rate).to_have_accessible_description(re.compile("^was 0.003"))
    expect(launch).to_be_in_viewport(ratio=1)
    assert page.evaluate("scrollY") == 0
    launch.click()
    expect(page.get_by_role("heading", name="well-done-2", level=1)).to_be_visible()
    run_id = page.url.split("/runs/")[1].partition("/")[0]
    assert office.get(f"/runs/{run_id}")["spec"]["train"]["learning_rate"] == 0.004
    office.wait_for_end(run_id)


def test_on_a_phone_the_button_stays_in_reach(sit: Sit) -> None:
    page = sit(PHONE).go("/launch/")
    for far in (0, 600, 100_000):
        page.evaluate("(far) => scrollTo(0, far)", far)
        expect(page.get_by_role("button", name="Launch", exact=True)).to_be_in_viewport(ratio=1)


def test_a_search_opens_the_groups_and_shows_the_fields_that_it_finds(seat: Seat) -> None:
    page = seat.go("/launch/")
    warm_up, search = page.get_by_label("Warm-up steps", exact=True), page.get_by_label("Search in all fields")
    expect(warm_up).to_be_hidden()
    search.fill("warm")
    expect(warm_up).to_be_visible()
    expect(page.get_by_text("1 field", exact=True)).to_be_visible()
    expect(page.get_by_label("Weight decay", exact=True)).to_be_hidden()
    search.press("Enter")
    warm_up.fill("7")
    expect(page.locator("summary", has_text="Train")).to_contain_text("warm-up steps 7")
    search.fill("lease")
    expect(page.get_by_label("Lease", exact=True)).to_be_visible()
    search.fill("no such words")
    expect(page.get_by_text("No field has these words.")).to_be_visible()
    search.fill("")
    expect(warm_up).to_be_hidden()
    expect(page).to_have_url(f"{seat.url}/launch/")


def test_the_text_of_the_spec_and_a_dropped_file_fill_the_form(seat: Seat) -> None:
    seat.watch.expect("422")
    page = seat.go("/launch/")
    text = page.get_by_label("Spec as YAML")
    page.get_by_label("Steps", exact=True).fill("77")
    expect(text).to_have_value(re.compile("steps: 77"))
    text.fill(text.input_value().replace("steps: 77", "steps: many"))
    page.get_by_role("button", name="Apply", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text(re.compile(r"Line \d+: train.steps\s+must be a whole number"))
    expect(page.get_by_label("Steps", exact=True)).to_have_value("77")
    text.fill(text.input_value().replace("steps: many", "steps: 78"))
    page.get_by_role("button", name="Apply", exact=True).click()
    expect(page.get_by_label("Steps", exact=True)).to_have_value("78")
    drop(page, "notes.txt", "nothing")
    expect(page.get_by_text(re.compile("^notes.txt fills no form"))).to_be_visible()
    drop(page, "mine.yaml", "name: dropped\ntask: {recipe: tabular}\n")
    expect(page.get_by_label("Name", exact=True)).to_have_value("dropped")
    expect(page.get_by_role("radio", name=re.compile("^Tabular"))).to_be_checked()


def drop(page: Page, name: str, text: str) -> None:
    code = """([name, text]) => {
        const data = new DataTransfer();
        data.items.add(new File([text], name));
        return data;
    }"""
    page.dispatch_event("form.launch", "drop", {"dataTransfer": page.evaluate_handle(code, [name, text])})


def test_a_folder_of_code_is_sent_from_the_form(seat: Seat, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    archive = tmp_path / "mine.tar.gz"
    archive.write_bytes(packed(folder))
    page = seat.go("/launch/")
    page.get_by_role("radio", name=re.compile("^Script")).check()
    page.get_by_label("or a .tar.gz").set_input_files(archive)
    expect(page.get_by_text(re.compile("^Stored "))).to_be_visible()
    expect(page.get_by_label("Script", exact=True)).to_have_value("train.py")


def test_what_is_wrong_stands_beside_its_field_while_one_types(seat: Seat) -> None:
    page = seat.go("/launch/")
    name, heads = field(page, "Name"), field(page, "Heads")
    name.fill("a<b")
    expect(name).to_have_attribute("aria-invalid", "true")
    expect(name).to_have_accessible_description(re.compile("<"))
    name.fill("a-b")
    expect(name).not_to_have_attribute("aria-invalid", "true")
    heads.fill("3")
    expect(heads).to_have_attribute("aria-invalid", "true")
    expect(heads).to_have_accessible_description(re.compile("width", re.I))


def test_a_refused_form_loses_nothing_that_was_typed(seat: Seat, yard: Yard) -> None:
    seat.watch.expect("422")
    page = seat.go("/launch/")
    typed = {"Name": "lopsided", "Tags": "kept, too", "Width": "64", "Heads": "3", "Steps": "77"}
    for label, text in typed.items():
        field(page, label).fill(text)
    page.get_by_role("main").get_by_role("button", name="Launch", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("This was not launched.")
    for label, text in typed.items():
        expect(field(page, label)).to_have_value(text)
    expect(page.get_by_role("main").locator("[aria-invalid=true]")).to_have_attribute("name", "task.model.heads")
    page.get_by_role("alert").get_by_role("link", name="Heads").click()
    expect(field(page, "Heads")).to_be_focused()
    assert yard.get("/runs", q="lopsided")["items"] == [], "nothing was written"


def test_fields_come_with_the_choice_that_reads_them_and_keep_what_was_typed(seat: Seat) -> None:
    page = seat.go("/launch/")
    schedule, momentum = field(page, "Pipeline schedule"), field(page, "Outer momentum")
    expect(schedule).to_be_hidden()
    expect(momentum).to_be_hidden()
    field(page, "Pipeline stages").fill("2")
    expect(schedule).to_be_visible()
    schedule.select_option("gpipe")
    field(page, "Pipeline stages").fill("1")
    expect(schedule).to_be_hidden()
    field(page, "Synchronization").select_option("diloco")
    momentum.fill("0.5")
    field(page, "Synchronization").select_option("every-step")
    expect(momentum).to_be_hidden()
    expect(page.get_by_label("Spec as YAML")).not_to_contain_text("gpipe")
    field(page, "Synchronization").select_option("diloco")
    expect(momentum).to_have_value("0.5")
    expect(page.get_by_label("Spec as YAML")).to_contain_text("outer_momentum: 0.5")


def test_the_drawing_tells_each_rank_by_pointer_and_by_keyboard(seat: Seat) -> None:
    page = seat.go("/launch/")
    for label, text in {"Nodes": "2", "Processes per node": "2", "Tensor degree": "2"}.items():
        field(page, label).fill(text)
    ranks = page.get_by_role("toolbar", name="Ranks on their nodes").get_by_role("button")
    expect(ranks).to_have_count(4)
    expect(page.get_by_role("radio", name=re.compile("^data × 2"))).to_be_checked()
    expect(ranks.nth(3)).to_contain_text("3d1")
    ranks.nth(3).hover()
    # The node has its name where it would start at once, and a number where its slots are taken.
    words = re.compile(r"^rank 3 on (node 2|local-2): copy 1, slice 1$")
    expect(page.locator(".mesh-words")).to_have_text(words)
    by_tensor = page.get_by_role("radio", name=re.compile("^tensor × 2"))
    by_tensor.check()
    expect(ranks.nth(2)).to_contain_text("2t0")
    expect(by_tensor).to_be_checked()
    ranks.nth(0).focus()
    page.keyboard.press("ArrowRight")
    expect(ranks.nth(1)).to_be_focused()
    page.keyboard.press("End")
    expect(ranks.nth(3)).to_be_focused()
    expect(ranks.nth(3)).to_have_attribute("tabindex", "0")
    expect(ranks.nth(0)).to_have_attribute("tabindex", "-1")
    field(page, "Tensor degree").fill("1")
    expect(by_tensor).to_have_count(0)
    expect(ranks.nth(3)).to_contain_text("3d3")


def launch_by_form(seat: Seat, name: str) -> Page:
    page = seat.go("/runs/")
    page.get_by_role("main").get_by_role("link", name="Launch", exact=True).click()
    values = {"Name": name, "Nodes": "1", "Steps": "5000", "Batch size": "8"}
    values |= {label.capitalize(): str(value) for label, value in TINY.items()}
    for label, text in values.items():
        field(page, label).fill(text)
    page.get_by_role("main").get_by_role("button", name="Launch", exact=True).click()
    expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()
    expect(page.get_by_role("main").get_by_text("running", exact=True)).to_be_visible()
    return page


def watch_it_learn(seat: Seat) -> None:
    """The loss falls and throughput moves while the page stays where it is."""
    page = seat.page
    loss, rate = (chart(page, name).locator(".chart-value") for name in ("train/loss", "train/tokens_per_second"))
    expect(rate).to_have_text(re.compile("tok/s"))
    num_visits = len(seat.watch.visits)
    points = drawn(page, "train/loss")
    wait_until_below(page, loss, 0.9 * float(points[0]["value"]))
    shown = rate.inner_text()
    expect(rate).not_to_have_text(shown)
    expect(page.get_by_role("status", name="How this page gets its news")).to_have_text("live")
    assert len(drawn(page, "train/loss")) > len(points)
    assert seat.watch.visits[num_visits:] == [], "nothing was loaded again"


def read_the_log(page: Page) -> None:
    page.get_by_role("navigation", name="Parts of this run").get_by_role("link", name="Logs").click()
    log = page.get_by_role("log")
    expect(log).to_contain_text("step")
    search = page.get_by_label("Search the log")
    search.fill("no such words")
    expect(page.get_by_text("No line holds these words.")).to_be_visible()
    search.fill("step")
    lines = log.locator(".log-line")
    expect(lines.first).to_contain_text("step")
    expect(lines.filter(has_not_text=re.compile("step", re.I))).to_have_count(0)


def field(page: Page, label: str) -> Locator:
    """The field, in a group that is not folded."""
    page.locator("details.launch-group, details.advanced").evaluate_all(
        "(all) => all.forEach((one) => one.open = true)"
    )
    return page.get_by_role("main").get_by_label(label, exact=True)


def chart(page: Page, name: str) -> Locator:
    return page.get_by_role("article", name=name, exact=True)


def drawn(page: Page, name: str) -> list[dict[str, Any]]:
    """The points that a chart holds."""
    points: list[dict[str, Any]] = chart(page, name).evaluate("(card) => card.chart.points()")
    return points


def wait_until_below(page: Page, value: Locator, limit: float) -> None:
    below = "([element, limit]) => parseFloat(element.textContent) < limit"
    page.wait_for_function(below, arg=[value.element_handle(), limit])
