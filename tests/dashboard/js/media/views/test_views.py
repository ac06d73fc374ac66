"""What is drawn of an item: nothing that was logged becomes markup, and everything can be read by keyboard."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.dashboard.js.conftest import Ask
from tests.media import BEEP

HOSTILE = '<img src=x onerror="document.title=1">'


@pytest.fixture(autouse=True)
def place(page: Page) -> None:
    """An empty place of the size of a card's body."""
    page.evaluate(
        """() => {
            document.body.innerHTML = "<main id=place></main>";
            const size = {width: "400px", height: "240px", position: "relative"};
            Object.assign(document.getElementById("place").style, size);
        }"""
    )


def draw_table(ask: Ask, columns: list[str], rows: list[list[Any]], **meta: int) -> dict[str, str]:
    function = """({TableView}, whole) => {
        const view = new TableView(document.getElementById("place"), {label: "answers", kept: {}});
        return view.show({step: 1}, whole);
    }"""
    words: dict[str, str] = ask(
        "media/views/table.js", function, {"table": {"columns": columns, "rows": rows}, "meta": meta}
    )
    return words


def column(page: Page, number: int) -> list[str]:
    return page.locator(f"tbody td:nth-child({number})").all_inner_texts()


def test_a_table_shows_cells_as_text(ask_page: Ask, page: Page) -> None:
    words = draw_table(ask_page, [HOSTILE, "n"], [[HOSTILE, 1], [None, 2.5]])
    assert words == {"ours": "2 rows"}
    assert page.locator("#place img").count() == 0
    assert column(page, 1) == [HOSTILE, "–"]
    assert column(page, 2) == ["1", "2.50"]


def test_a_head_sorts_its_column_and_says_so(ask_page: Ask, page: Page) -> None:
    draw_table(ask_page, ["word", "n"], [["b", 2], ["a", 10], ["c", 1]])
    head = page.locator("th").nth(1)
    assert head.get_attribute("aria-sort") is None
    head.locator("button").press("Enter")
    assert column(page, 2) == ["1", "2", "10"]
    assert head.get_attribute("aria-sort") == "ascending"
    page.keyboard.press("Enter")  # it still has the focus
    assert column(page, 2) == ["10", "2", "1"]
    assert head.get_attribute("aria-sort") == "descending"


def test_numbers_stand_at_the_end_of_their_column(ask_page: Ask, page: Page) -> None:
    draw_table(ask_page, ["mixed", "n", "nothing"], [["b", 2, None], [1, None, None]])
    assert [one.get_attribute("class") or "" for one in page.locator("th").all()] == ["", "num", ""]


def test_a_long_table_is_drawn_in_part_and_counted_in_whole(ask_page: Ask, page: Page) -> None:
    words = draw_table(ask_page, ["n"], [[number] for number in range(1000)], num_rows=20_000)
    assert page.locator("tbody tr").count() == 200
    assert words["ours"] == "200 of 1,000 rows drawn; the download has all, cut from the 20,000 rows that were logged"


def test_a_text_stays_text(ask_page: Ask, page: Page) -> None:
    function = """({TextView}, text) => {
        const view = new TextView(document.getElementById("place"), {label: "story"});
        return view.show({step: 1, meta: {}}, {text});
    }"""
    assert ask_page("media/views/text.js", function, HOSTILE) == {"ours": f"{len(HOSTILE)} characters"}
    assert page.locator("#place").inner_text() == HOSTILE
    words = ask_page("media/views/text.js", function, "x" * 70_000)["ours"]
    assert words == "the first 50,000 of 70,000 characters; the download has all"


AUDIO = """({AudioView}, file) => {
    window.view = new AudioView(document.getElementById("place"), {label: "speech", media: {file: () => file}});
    const meta = {caption: "", sample_rate: 16000, channels: 2, duration_s: 0.25, format: "wav"};
    return view.show({id: 1, step: 7, size: 2048, meta});
}"""


def test_a_sound_has_a_player_with_a_name_that_keys_reach(ask_page: Ask, page: Page) -> None:
    file = f"data:audio/wav;base64,{b64encode(BEEP).decode()}"
    assert ask_page("media/views/audio.js", AUDIO, file) == {
        "theirs": "",
        "ours": "0.25 s, 16,000 Hz, 2 channels, 2.0 KiB",
    }
    player = page.locator("audio[controls]")
    assert player.get_attribute("aria-label") == "speech at step 7"
    page.wait_for_function("document.querySelector('audio').duration === 0.5")
    page.evaluate("view.close()")
    assert player.count() == 0


def test_a_sound_that_does_not_come_is_said_to_be_missing(ask_page: Ask, page: Page) -> None:
    ask_page("media/views/audio.js", AUDIO, "http://modules.invalid/nothing")
    page.locator(".media-audio.is-broken").wait_for(state="attached")


HEAT = """({Heat}, {edges, steps, counts}) => new Promise((done) => {
    window.said = [];
    window.picked = [];
    const options = {label: "weights", onRead: (text) => said.push(text), onPick: (step) => picked.push(step)};
    window.heat = new Heat(document.getElementById("place"), options);
    heat.show({edges, steps, counts});
    requestAnimationFrame(() => requestAnimationFrame(() => done(true)));
})"""


def test_a_heat_map_is_read_by_keys(ask_page: Ask, page: Page) -> None:
    ask_page(
        "media/histograms/heat.js",
        HEAT,
        {"edges": [0, 1, 2], "steps": [10, 20, 30], "counts": [[4, 0], [1, 3], [2, 2]]},
    )
    plot = page.locator("canvas")
    assert "arrow keys" in (plot.get_attribute("aria-label") or "")
    plot.press("ArrowLeft")
    plot.press("ArrowUp")
    assert page.evaluate("said") == ["step 20:  1 … 2:  3 values, 75 %", "step 20:  1 … 2:  3 values, 75 %"]
    plot.press("ArrowDown")
    plot.press("Home")
    assert page.evaluate("said.at(-1)") == "step 10:  0 … 1:  4 values, 100 %"
    plot.press("Enter")
    assert page.evaluate("picked") == [10]


def test_a_heat_map_is_darkest_where_most_values_are(ask_page: Ask, page: Page) -> None:
    page.evaluate("document.documentElement.style.setProperty('--series-1', 'rgb(10 20 30)')")
    ask_page("media/histograms/heat.js", HEAT, {"edges": [0, 1, 2], "steps": [10, 20], "counts": [[4, 0], [1, 3]]})
    opacity = """() => {
        const {plot} = heat;
        const pen = plot.still.getContext("2d");
        const place = (step, value) => [plot.left(step), plot.top(value)].map((one) => one * devicePixelRatio);
        const at = (step, value) => pen.getImageData(...place(step, value), 1, 1).data[3];
        return [at(10, 0.5), at(10, 1.5), at(20, 0.5), at(20, 1.5)];
    }"""
    full, none, few, most = page.evaluate(opacity)
    assert full > most > few > none == 0


def test_a_histogram_is_read_by_pointer_and_keys(ask_page: Ask, page: Page) -> None:
    function = """({Bars}) => new Promise((done) => {
        window.said = [];
        window.bars = new Bars(document.getElementById("place"), {label: "weights", onRead: (text) => said.push(text)});
        bars.show({edges: [-1, 0, 1, 2], counts: [1, 0, 3]});
        requestAnimationFrame(() => requestAnimationFrame(() => done(true)));
    })"""
    ask_page("media/histograms/bars.js", function)
    place, height = page.locator("canvas").bounding_box() or {}, 100
    page.mouse.move(place["x"] + page.evaluate("bars.plot.left(1.5)"), place["y"] + height)
    assert page.evaluate("said.at(-1)") == "1 … 2:  3 values, 75 %"
    page.locator("canvas").press("Home")
    assert page.evaluate("said.at(-1)") == "−1 … 0:  1 value, 25 %"
    page.mouse.move(0, 300)
    assert page.evaluate("said.at(-1)") == ""


def test_an_image_zooms_about_its_middle_within_its_frame(ask_page: Ask, page: Page) -> None:
    function = """({Zoom}) => {
        const frame = document.getElementById("place");
        const image = frame.appendChild(document.createElement("i"));
        window.zoom = new Zoom(frame, image, () => true);
        return image.style.transform;
    }"""
    assert ask_page("media/views/image.js", function) == ""
    page.keyboard.press("+")
    assert page.evaluate("[zoom.scale, zoom.x, zoom.y]") == [1.5, 0, 0]
    page.evaluate("zoom.by(2, 1000, 1000)")
    assert page.evaluate("[zoom.scale, zoom.x, zoom.y]") == [3, -400, -240], "no further than its edge"
    page.keyboard.press("0")
    assert page.evaluate("[zoom.scale, zoom.x, zoom.y, zoom.element.style.transform]") == [1, 0, 0, ""]
