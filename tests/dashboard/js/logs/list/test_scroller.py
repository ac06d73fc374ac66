"""A list of any length in a box: what is drawn, where it stands, and what is shown while lines are on their way."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from playwright.sync_api import Page

from tests.dashboard.js.conftest import Ask, asker

# A box of ten lines (180 px) over a list whose lines may be as high as the test wants.
BOX = """
    const {Scroller} = module;
    const place = document.getElementById("place");
    place.innerHTML = `<div class="log-lines"><div class="log-filler"><div class="log-layer"><div class="log-rows">
        </div></div></div></div>`;
    const view = place.firstElementChild;
    Object.assign(view.style, {height: "180px", width: "600px"});
    const list = {total: 0, wanted: [], has: () => true, height: () => 18, get: (at) => list.has(at) ? at : undefined};
    list.want = (from, to) => list.wanted.push([from, to]);
    const rowOf = (index) => {
        const row = document.createElement("div");
        row.className = "log-line";
        row.textContent = list.has(index) ? index : "";
        Object.assign(row.style, {height: `${list.height(index)}px`, minHeight: "0"});
        return row;
    };
    const scroller = new Scroller(view, {source: list, rowOf, onDraw() {}, onScroll() {}});
    const frame = () => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
    const inView = () => {
        const box = view.getBoundingClientRect();
        const rows = [...view.querySelectorAll(".log-line")].filter((row) => {
            const {top, bottom} = row.getBoundingClientRect();
            return bottom > box.top + 0.5 && top < box.bottom - 0.5;
        });
        return rows.map((row) => row.textContent);
    };
    const ends = () => { const all = inView(); return [all[0], all.at(-1)]; };
    const bar = async (to) => { view.scrollTop = to; await frame(); };
"""


@pytest.fixture(scope="module", autouse=True)
def _styled(page: Page) -> None:
    style(page)


@pytest.fixture(scope="module")
def ask_with_bars(page_with_bars: Page) -> Ask:
    style(page_with_bars)
    return asker(page_with_bars)


def style(page: Page) -> None:
    styles = (settings.BASE_DIR / "static" / "css" / "logs.css").read_text()
    page.add_style_tag(content=styles.replace('@import url("log_colours.css");', ""))  # a page without an address
    page.add_style_tag(content="* { box-sizing: border-box; margin: 0 }")


def told(ask: Ask, script: str) -> Any:
    return ask("logs/list/scroller.js", "async (module) => {" + BOX + script + "}")


def test_only_what_is_in_view_is_drawn(ask_page: Ask) -> None:
    script = """
        list.total = 1000;
        scroller.draw();
        const first = [ends(), view.scrollHeight];
        await bar(900);
        return [...first, ends(), view.querySelectorAll(".log-line").length];
    """
    assert told(ask_page, script) == [["0", "9"], 18_000, ["50", "59"], 12]


def test_ten_million_lines_are_gone_through_one_by_one_and_by_leaps(ask_page: Ask) -> None:
    script = """
        list.total = 10_000_000;
        scroller.draw();
        const seen = [view.scrollHeight];
        await bar(36);
        seen.push(ends());
        await bar(6_000_000);
        seen.push(Math.round(Number(inView()[0]) / 1000));
        const here = Number(inView()[0]);
        await bar(view.scrollTop + 180);
        seen.push(Number(inView()[0]) - here);
        await bar(view.scrollHeight);
        seen.push(ends());
        return seen;
    """
    assert told(ask_page, script) == [12_000_000, ["2", "11"], 5000, 10, ["9999990", "9999999"]]


@pytest.mark.parametrize("height", [18, 40, 700])
def test_the_end_is_the_end_however_high_lines_are(height: int, ask_page: Ask) -> None:
    script = f"""
        list.total = 300;
        list.height = (at) => at % 3 ? 18 : {height};
        scroller.wrap(true);
        scroller.toEnd();
        await frame();
        const rows = [...view.querySelectorAll(".log-line")];
        const gap = view.getBoundingClientRect().bottom - rows.at(-1).getBoundingClientRect().bottom;
        return [rows.at(-1).textContent, Math.round(gap), scroller.isAtEnd];
    """
    assert told(ask_page, script) == ["299", 0, True]


def test_wrapped_lines_move_by_pixels(ask_page: Ask) -> None:
    script = """
        list.total = 300;
        list.height = (at) => 18 * (1 + (at % 4));
        scroller.wrap(true);
        scroller.moveTo(100);
        const tops = () => {
            const box = view.getBoundingClientRect().top;
            const row = [...view.querySelectorAll(".log-line")].find((one) => one.textContent === "101");
            return row.getBoundingClientRect().top - box;
        };
        const all = [tops()];
        for (const px of [10, 20, -25, -60, 55]) { scroller.moveBy(px); all.push(tops()); }
        return all.map(Math.round);
    """
    assert told(ask_page, script) == [18, 8, -12, 13, 73, 18]


def test_what_was_read_stays_until_faint_rows_stand_for_what_comes(ask_page: Ask) -> None:
    script = """
        list.total = 1000;
        scroller.draw();
        list.has = (at) => at < 100;
        scroller.moveTo(500);
        const at_once = ends();
        await new Promise((done) => setTimeout(done, 350));
        const faint = inView().join("");
        list.has = () => true;
        scroller.draw();
        return [at_once, faint, ends(), list.wanted.at(-1)];
    """
    assert told(ask_page, script) == [["0", "9"], "", ["500", "509"], [500, 512]]


def test_a_line_is_revealed_and_the_bar_follows(ask_page: Ask) -> None:
    script = """
        list.total = 1000;
        scroller.draw();
        scroller.reveal(500, "middle");
        const middle = [ends(), view.scrollTop];
        scroller.reveal(505);
        return [middle, ends(), (scroller.reveal(506), ends()), view.scrollTop];
    """
    assert told(ask_page, script) == [[["495", "505"], 8919], ["496", "505"], ["497", "506"], 8946]


def test_an_empty_list_draws_nothing(ask_page: Ask) -> None:
    script = """
        scroller.draw();
        scroller.toEnd();
        scroller.moveBy(50);
        return [inView(), scroller.isAtEnd, scroller.top];
    """
    assert told(ask_page, script) == [[], True, 0]


SIDEWAYS = """
    view.style.width = "300px";
    const hidden = () => {
        const {top} = view.getBoundingClientRect();
        const last = [...view.querySelectorAll(".log-line")].at(-1);
        return [last.textContent, Math.round(last.getBoundingClientRect().bottom - top - view.clientHeight)];
    };
    const isWide = new Set();
    const make = scroller.rows.rowOf;
    scroller.rows.rowOf = (index) => {
        const row = make(index);
        if (isWide.has(index)) row.style.width = "900px";
        return row;
    };
"""


def test_the_last_line_stands_above_the_bar_for_moving_sideways(ask_with_bars: Ask) -> None:
    script = (
        SIDEWAYS
        + """
        list.total = 300;
        isWide.add(299);
        scroller.toEnd();
        await frame();
        return [view.clientHeight, ...hidden(), scroller.isAtEnd];
    """
    )
    assert told(ask_with_bars, script) == [165, "299", 0, True]


def test_the_end_stays_in_view_when_a_wide_line_comes_later_and_when_the_box_shrinks(ask_with_bars: Ask) -> None:
    script = (
        SIDEWAYS
        + """
        list.total = 300;
        scroller.toEnd();
        await frame();
        const seen = [[view.clientHeight, ...hidden()]];
        isWide.add(301);
        list.total = 302;
        scroller.toEnd();
        await frame();
        seen.push([view.clientHeight, ...hidden()]);
        view.style.height = "120px";
        await frame();
        seen.push([view.clientHeight, ...hidden()]);
        scroller.moveTo(100);
        view.style.height = "180px";
        await frame();
        seen.push(Math.round(scroller.top), scroller.isAtEnd);
        return seen;
    """
    )
    assert told(ask_with_bars, script) == [[180, "299", 0], [165, "301", 0], [105, "301", 0], 100, False]


def test_the_end_of_wrapped_lines_stays_in_view_when_the_box_shrinks(ask_with_bars: Ask) -> None:
    script = (
        SIDEWAYS
        + """
        list.total = 300;
        list.height = (at) => 18 * (1 + (at % 4));
        scroller.wrap(true);
        scroller.toEnd();
        await frame();
        view.style.height = "120px";
        await frame();
        return [...hidden(), scroller.isAtEnd];
    """
    )
    assert told(ask_with_bars, script) == ["299", 0, True]
