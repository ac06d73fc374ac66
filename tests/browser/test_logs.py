"""The Logs tab: whatever programs print is shown as text, found, followed and linked to, by keyboard too."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Seat, Sit, packed, scripted, tiny
from tests.browser.test_pages import AXE, barriers
from tests.up_process import wait_until
from tests.whole.runs import Yard

NUM_STEPS = 400
COLD = "ERROR: the boiler of rank 1 is cold"
OUT = "torch.OutOfMemoryError: the tender is empty"
# What two ranks print: first what is hostile, then steps with an error on each rank, then a line now and then.
LOUD = f"""
import os, sys, time, trainyard
run = trainyard.init()
rank = int(os.environ["RANK"])
hostile = [
    "<img src=x onerror=\\"document.title='taken'\\"><b>bold</b>",
    "\\u202e\\u05e9\\u05dc\\u05d5\\u05dd right to left",
    "\\U0001f525\\U0001f469\\u200d\\U0001f680 emoji",
    "long " + "w" * 9_990 + " end",
    "\\x1b[31mred words\\x1b[0m and \\x1b[38;2;10;10;40mnavy ones\\x1b[0m",
    "nul\\0 and \\x1b]8;;javascript:alert(1)\\x07a link\\x1b]8;;\\x07",
    "loading 10 %\\rloading 55 %\\rloaded \\x1b[K",
]
if rank == 0:
    print("\\n".join(hostile), flush=True)
time.sleep(0.2)
for step in range({NUM_STEPS}):
    print(f"step {{step}} of rank {{rank}}: all is well")
    if (step, rank) == (200, 1):
        print({COLD!r}, file=sys.stderr, flush=True)
    if step % 50 == 0:
        sys.stdout.flush()
        time.sleep(0.05)
sys.stdout.flush()
time.sleep(2)  # the other rank is through by now
if rank == 0:
    print({OUT!r}, file=sys.stderr, flush=True)
for step in range(100_000):
    run.log({{"train/loss": 1.0}}, step=step)
    print(f"tick {{step}} of rank {{rank}}", flush=True)
    time.sleep(0.3)
"""


FURTHER_UP = """(before) => !document.querySelector(".is-coming")
    && Number(document.querySelector(".log-line").getAttribute("aria-rowindex")) < before - 20"""


@pytest.fixture(scope="module")
def loud(office: Yard, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The id of a live run whose log has everything in it."""
    folder = tmp_path_factory.mktemp("code")
    spec = scripted(office, folder, "loud")
    (folder / "train.py").write_text(LOUD)
    spec["resources"] = {"nodes": 2}
    spec["task"]["code"] = {"sha256": office.http.post("/bundles", content=packed(folder)).json()["sha256"]}
    run_id = office.submit(spec)
    office.wait_for_step(run_id, 1)
    yield run_id
    office.post(f"/runs/{run_id}/stop")
    office.wait_for_end(run_id)


def opened(seat: Seat, run_id: str, query: str = "") -> Page:
    page = seat.go(f"/runs/{run_id}/logs/{query}")
    expect(page.locator(".log-line").first).to_be_visible()
    return page


def lines(page: Page) -> Locator:
    return page.get_by_role("grid", name="Lines, oldest first")


def row(page: Page, text: str) -> Locator:
    return lines(page).get_by_role("row").filter(has_text=text)


def chosen(page: Page) -> Locator:
    return lines(page).locator("[aria-selected=true]")


def texts(page: Page) -> list[str]:
    """Return what the lines say, without the labels before them."""
    own = "cell => [...cell.childNodes].filter(one => !one.classList?.contains('log-tag')).map(one => one.textContent)"
    cells = lines(page).locator(".log-text").evaluate_all(f"cells => cells.map({own})")
    return ["".join(cell) for cell in cells]


def found(page: Page) -> Locator:
    return page.locator("#log-found")


def copied(page: Page) -> str:
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text


def test_whatever_a_program_prints_is_text(seat: Seat, loud: str) -> None:
    page = opened(seat, loud)
    lines(page).press("Home")
    expect(row(page, "<img src=x")).to_contain_text("<b>bold</b>")
    assert lines(page).locator("img, b, a").count() == 0
    assert "taken" not in page.title()
    expect(row(page, "emoji").locator(".log-text")).to_have_text("🔥👩\u200d🚀 emoji")
    expect(row(page, "right to left").locator(".log-text")).to_have_css("unicode-bidi", "isolate")
    expect(row(page, "a link").locator(".log-text")).to_have_text("nul and a link")
    expect(row(page, "loaded").locator(".log-text")).to_have_text(re.compile("^loaded ?$"))
    red, navy = row(page, "red words").locator(".log-text span").all()
    expect(red).to_have_class("ansi-1")
    assert navy.evaluate("(span) => getComputedStyle(span).color") == "rgb(10, 10, 40)"
    page.emulate_media(color_scheme="dark")
    channels = re.findall(r"\d+", navy.evaluate("(span) => getComputedStyle(span).color"))
    assert min(int(channel) for channel in channels) > 80, "navy is lightened on a dark ground"


def test_a_long_line_is_cut_until_one_wants_all_of_it(seat: Seat, loud: str) -> None:
    page = opened(seat, loud)
    lines(page).press("Home")
    long = row(page, "wwww").first
    expect(long).to_contain_text("show all 9,999 characters")
    assert len(long.locator(".log-text").inner_text()) < 4_200
    long.locator(".log-time").click()
    lines(page).press("Enter")
    expect(row(page, "wwww").first).to_contain_text("www end")
    page.keyboard.press("w")
    expect(page).to_have_url(re.compile("wrap=1"))
    expect(row(page, "wwww")).to_have_count(1)
    height = row(page, "wwww").evaluate("(row) => row.offsetHeight")
    assert height > 500, "it is wrapped"


def test_words_are_found_and_seen_in_place_by_keyboard(seat: Seat, loud: str) -> None:
    page = opened(seat, loud)
    page.keyboard.press("/")
    page.keyboard.type("STEP 39 OF")
    expect(found(page)).to_have_text("2 hits")
    assert sorted(texts(page)) == [f"step 39 of rank {rank}: all is well" for rank in (0, 1)]
    assert lines(page).locator("mark").all_text_contents() == ["step 39 of", "step 39 of"]
    page.keyboard.press("Enter")
    expect(found(page)).to_have_text("1 of 2 hits")
    page.keyboard.press("Enter")
    expect(found(page)).to_have_text("2 of 2 hits")
    page.keyboard.press("ArrowDown")
    expect(lines(page)).to_be_focused()
    page.keyboard.press("Enter")
    expect(row(page, "step 38 of rank").first).to_be_visible()
    expect(chosen(page)).to_contain_text("step 39 of rank")
    first = chosen(page).text_content() or ""
    page.keyboard.press("n")
    expect(chosen(page)).not_to_have_text(first)
    expect(chosen(page).locator("mark")).to_have_text("step 39 of")
    page.keyboard.press("Escape")
    expect(lines(page).get_by_role("row")).to_have_count(2)


def test_a_search_minds_case_and_patterns_when_told(seat: Seat, loud: str) -> None:
    page = opened(seat, loud, "?q=BOILER")
    expect(found(page)).to_have_text("1 hit")
    page.get_by_role("button", name="Match case").click()
    expect(page.get_by_text("No line holds these words.")).to_be_visible()
    search = page.get_by_label("Search the log")
    page.get_by_role("button", name="Regular expression").click()
    search.fill(r"^step 39[0-9] of rank 1")
    expect(found(page)).to_have_text("10 hits")
    expect(page).to_have_url(re.compile("regex=1&case=1"))
    seat.watch.expect("422")
    search.fill("emo.i")
    expect(lines(page).locator("mark")).to_have_text(["emoji"])  # behind characters that JavaScript counts twice
    search.fill("(")
    expect(found(page)).to_contain_text("missing )")
    expect(search).to_have_attribute("aria-invalid", "true")
    search.fill("")
    expect(row(page, "tick").first).to_be_visible()


def test_facets_leave_the_lines_that_are_wanted(seat: Seat, loud: str) -> None:
    page = opened(seat, loud)
    level = page.get_by_role("group", name="Level")
    level.get_by_role("button", name="error 2").click()
    expect(lines(page).get_by_role("row")).to_have_count(2)
    assert texts(page) == [COLD, OUT]
    assert lines(page).locator(".log-tag").all_text_contents() == ["gpu-out-of-memory"]
    page.get_by_role("group", name="Rank").get_by_role("button", name=re.compile("^1 ")).click()
    expect(lines(page).get_by_role("row")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"\?rank=1&level=error$"))
    page.reload()
    expect(lines(page).locator(".log-text")).to_have_text([COLD])
    with page.expect_download() as download:
        page.get_by_role("link", name="Download", exact=True).click()
    (line,) = download.value.path().read_text().splitlines()
    assert line.endswith(COLD)
    level.get_by_role("button", name="error").click()
    expect(row(page, "of rank 1").first).to_be_visible()
    expect(row(page, "of rank 0")).to_have_count(0)


def test_errors_are_gone_through_by_key(seat: Seat, loud: str) -> None:
    page = opened(seat, loud)
    expect(page.get_by_role("button", name="First error 2")).to_be_enabled()
    page.keyboard.press("e")
    expect(chosen(page)).to_contain_text(COLD)
    expect(chosen(page)).to_be_in_viewport()
    page.keyboard.press("e")
    expect(chosen(page)).to_contain_text(OUT)
    page.keyboard.press("Shift+E")
    expect(chosen(page)).to_contain_text(COLD)
    seat.watch.expect("404")  # the answer to what is not there
    page.keyboard.press("Shift+E")
    expect(page.get_by_text("No error before this line.")).to_be_visible()


def test_a_link_leads_to_its_line(seat: Seat, loud: str) -> None:
    page = opened(seat, loud)
    page.get_by_role("button", name="First error 2").click()
    expect(chosen(page)).to_contain_text(COLD)
    page.keyboard.press("y")
    expect(page.get_by_text("Copied a link to this line.")).to_be_visible()
    address = copied(page)
    page.goto("about:blank")
    page.goto(address)
    expect(chosen(page)).to_contain_text(COLD)
    expect(chosen(page)).to_be_in_viewport()
    expect(page.get_by_role("button", name="Follow", exact=True)).to_have_attribute("aria-pressed", "false")
    lines(page).focus()
    page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Shift+ArrowDown")
    expect(chosen(page)).to_have_count(3)
    page.keyboard.press("Control+c")
    expect(page.get_by_text("Copied 3 lines.")).to_be_visible()
    assert copied(page).splitlines() == chosen(page).locator(".log-text").all_text_contents()
    assert copied(page).splitlines()[0] == COLD


def test_the_list_is_walked_by_keys_and_keeps_the_focus(seat: Seat, loud: str) -> None:
    page = opened(seat, loud)
    lines(page).press("Home")
    expect(lines(page).locator(".is-active")).to_have_attribute("aria-rowindex", "1")
    for _ in range(5):
        page.keyboard.press("PageDown")
    page.keyboard.press("ArrowDown")
    expect(lines(page)).to_be_focused()
    expect(lines(page)).to_have_attribute("aria-activedescendant", re.compile("."))
    active = lines(page).get_attribute("aria-activedescendant")
    expect(page.locator(f"#{active}")).to_be_in_viewport()
    page.keyboard.press("t")
    expect(page.get_by_label("Time of a line")).to_have_value("relative")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("Next error")
    page.keyboard.press("Escape")
    page.keyboard.press("f")
    expect(row(page, "tick").first).to_be_visible()


def test_the_tail_is_followed_until_one_reads_further_up(seat: Seat, loud: str) -> None:
    page = opened(seat, loud)
    follow = page.get_by_role("button", name="Follow", exact=True)
    expect(follow).to_have_attribute("aria-pressed", "true")
    last = lines(page).get_by_role("row").last
    seen = last.inner_text()
    expect(last).not_to_have_text(seen)
    top = lines(page).get_by_role("row").first
    before = int(top.get_attribute("aria-rowindex") or 0)
    lines(page).hover()
    page.mouse.wheel(0, -900)
    expect(follow).to_have_attribute("aria-pressed", "false")
    page.wait_for_function(FURTHER_UP, arg=before)
    more = page.get_by_role("button", name=re.compile("new lines?$"))
    expect(more).to_be_visible()
    first, told = top.text_content() or "", more.inner_text()  # the wheel has come to rest by then
    expect(more).not_to_have_text(told)
    expect(top).to_have_text(first)
    more.click()
    expect(more).to_be_hidden()
    expect(follow).to_have_attribute("aria-pressed", "true")


def test_a_search_goes_on_while_the_log_grows(seat: Seat, loud: str) -> None:
    page = opened(seat, loud, "?q=tick&rank=1")
    expect(found(page)).to_have_text(re.compile("^[0-9,]+ hits$"))
    before = number(found(page))
    page.wait_for_function(
        "(before) => Number.parseInt(document.querySelector('#log-found').textContent.replace(',', '')) > before + 3",
        arg=before,
    )
    shown = texts(page)  # once: the log grows
    assert len(set(shown)) == len(shown), "each hit is there once"


def number(words: Locator) -> int:
    return int(re.sub(r"\D", "", words.inner_text()))


def test_a_connection_that_breaks_is_told_and_heals(seat: Seat, loud: str) -> None:
    seat.watch.expect("ERR_INTERNET_DISCONNECTED", "WebSocket")
    page = opened(seat, loud)
    page.context.set_offline(True)
    trouble = page.locator("[data-trouble]")
    lines(page).press("Home")
    expect(trouble).to_have_text(re.compile("The server does not answer"))
    page.context.set_offline(False)
    expect(trouble).to_be_hidden()
    expect(row(page, "<img src=x")).to_be_visible()


def test_a_run_that_is_deleted_elsewhere_says_so(seat: Seat, office: Yard) -> None:
    run_id = office.submit(tiny("short-lived", steps=3))
    office.post(f"/runs/{run_id}/stop")  # it never begins where the nodes have other work
    office.wait_for_end(run_id)
    page = seat.go(f"/runs/{run_id}/logs/")
    expect(page.locator("[data-note]")).to_have_text(re.compile("^No line yet"))
    seat.watch.expect("404", "WebSocket")
    # 409 until its nodes have confirmed that nothing of it is left there.
    wait_until(lambda: office.http.delete(f"/runs/{run_id}").status_code in (200, 204), "the run is deleted")
    page.get_by_label("Search the log").fill("step")
    expect(page.locator("[data-trouble]")).to_have_text(re.compile("This run was deleted"))


def test_the_log_shuts_nobody_out(sit: Sit, loud: str) -> None:
    seat = sit()
    page = opened(seat, loud, "?q=rank")
    expect(found(page)).to_contain_text("hits")
    page.keyboard.press("n")
    lines(page).press("Enter")
    expect(chosen(page)).to_have_count(1)
    seat.watch.expect("")
    page.evaluate(AXE.read_text())
    assert barriers(page) == []
    page.emulate_media(color_scheme="dark")
    assert barriers(page, runOnly=["color-contrast"]) == []
    page.keyboard.press("Home")
    expect(row(page, "navy ones")).to_be_visible()
    assert barriers(page, runOnly=["color-contrast"]) == []
