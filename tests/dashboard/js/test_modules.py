"""The pure parts of the browser's modules, in a real Chromium: formats, cursors, lines, log colours, patching."""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from playwright.sync_api import Browser, Page, Route

from tests.dashboard.test_numbers import AGES, DURATIONS, NOW, NUMBERS, SIZES

pytestmark = pytest.mark.browser
FOLDER = settings.BASE_DIR / "static" / "js"
Ask = Callable[..., Any]


def serve(route: Route) -> None:
    """The modules as they are, and an empty page to import them in."""
    name = route.request.url.rsplit("/", 1)[1]
    if not name:
        return route.fulfill(content_type="text/html", body="<!doctype html><main id=place></main>")
    kind = mimetypes.guess_type(name)[0] or "text/plain"
    return route.fulfill(content_type=kind, body=(FOLDER / name).read_text())


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    page.route("http://modules.invalid/**", serve)
    page.goto("http://modules.invalid/")
    yield page
    page.close()


@pytest.fixture(scope="module")
def ask(page: Page) -> Ask:
    """``ask("format.js", "({number}, x) => number(x)", 3)``: call a function with the module and a value."""

    def call(module: str, function: str, value: Any = None) -> Any:
        return page.evaluate(
            f"async (value) => ({function})(await import('http://modules.invalid/{module}'), value)", value
        )

    return call


def test_the_browser_writes_numbers_as_the_server_does(ask: Ask) -> None:
    numbers = ask("format.js", "({number}, values) => values.map((x) => number(x))", [value for value, _ in NUMBERS])
    assert numbers == [words for _, words in NUMBERS]
    sizes = ask("format.js", "({size}, values) => values.map((x) => size(x))", [value for value, _ in SIZES])
    assert sizes == [words for _, words in SIZES]


def test_the_browser_writes_times_as_the_server_does(ask: Ask) -> None:
    durations = ask("format.js", "({duration}, all) => all.map((x) => duration(x))", [value for value, _ in DURATIONS])
    assert durations == [words for _, words in DURATIONS]
    now = NOW.timestamp() * 1000
    moments = [[(NOW - timedelta(seconds=seconds)).timestamp() * 1000, now] for seconds, _ in AGES]
    assert ask("format.js", "({age}, all) => all.map(([at, now]) => age(at, now))", moments) == [one for _, one in AGES]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("system/memory_bytes", 3_330_000_000, "3.1 GiB"),
        ("train/tokens_per_second", 12_400, "12.4k tok/s"),
        ("system/cpu_percent", 61.23, "61.2 %"),
        ("train/step_time_s", 0.35, "0.350 s"),
        ("train/loss", 2.5, "2.50"),
        ("train/losses", 2.5, "2.50"),
    ],
)
def test_a_unit_follows_from_the_name_of_a_metric(name: str, value: float, words: str, ask: Ask) -> None:
    assert ask("format.js", "({formatOf}, [name, value]) => formatOf(name)(value)", [name, value]) == words


@pytest.mark.parametrize(
    ("message", "cursor", "verdict"),
    [
        ({"type": "run"}, 5, "deliver"),
        ({"type": "points", "from": 5, "cursor": 6}, None, "deliver"),
        ({"type": "points", "from": 5, "cursor": 6}, 5, "deliver"),
        ({"type": "points", "from": 4, "cursor": 6}, 5, "deliver"),  # some of it is new
        ({"type": "points", "from": 4, "cursor": 5}, 5, "drop"),
        ({"type": "points", "from": 6, "cursor": 7}, 5, "hole"),
        ({"type": "logs", "from": 5, "cursor": 5}, 5, "deliver"),  # its batch goes on
        ({"type": "logs", "from": 6, "cursor": 6}, 5, "hole"),
        ({"type": "logs", "from": 4, "cursor": 4}, 5, "drop"),
        ({"type": "ping", "cursor": 5}, 5, "deliver"),
        ({"type": "ping", "cursor": 6}, 5, "hole"),
    ],
)
def test_a_message_is_judged_by_its_cursor(message: dict[str, Any], cursor: int | None, verdict: str, ask: Ask) -> None:
    assert ask("live.js", "({judge}, [message, cursor]) => judge(message, cursor)", [message, cursor]) == verdict


BUILD = """({build}, [parts, options]) => {
    const columns = ({step, time, value}) => ({step, time: time ?? step, value: value.map(Number), min: null});
    const lines = new Map([["[]", {labels: {}, parts: new Map(parts.map((part) => [part.attempt, columns(part)]))}]]);
    const built = build({lines}, options);
    const ys = built.ys.map((y) => [...y].map((value) => value === undefined ? "none" : value));
    return {...built, ys, last: [...built.last]};
}"""


def test_points_become_one_line(ask: Ask) -> None:
    built = ask("lines.js", BUILD, [[{"attempt": 1, "step": [1, 2, 3], "value": [3, 2, 1]}], {}])
    assert (built["x"], built["ys"], built["last"]) == ([1, 2, 3], [[3, 2, 1]], [["[]", 1]])


def test_the_newest_attempt_wins_and_the_old_tail_is_a_ghost(ask: Ask) -> None:
    parts = [
        {"attempt": 1, "step": [1, 2, 3, 4], "value": [9, 8, 7, 6]},
        {"attempt": 2, "step": [3, 4, 5], "value": [5, 4, 3]},
    ]
    built = ask("lines.js", BUILD, [parts, {}])
    assert [column["kind"] for column in built["columns"]] == ["main", "ghost"]
    assert built["x"] == [1, 2, 3, 4, 5]
    assert built["ys"] == [[9, 8, 5, 4, 3], ["none", 8, 7, 6, "none"]]
    assert built["marks"] == [{"attempt": 2, "x": 3}]


def test_on_a_time_axis_the_pause_between_attempts_is_a_gap(ask: Ask) -> None:
    parts = [
        {"attempt": 1, "step": [1, 2], "time": [100, 101], "value": [9, 8]},
        {"attempt": 2, "step": [2, 3], "time": [200, 201], "value": [7, 6]},
    ]
    built = ask("lines.js", BUILD, [parts, {"axis": "time", "start": 100}])
    assert built["x"] == [0, 1, 50.5, 100, 101]
    assert built["ys"] == [[9, 8, None, 7, 6]]
    assert built["bad"] == []


def test_what_is_not_finite_is_a_gap_with_a_mark(ask: Ask) -> None:
    built = ask("lines.js", BUILD, [[{"attempt": 1, "step": [1, 2, 3], "value": [3, "NaN", 1]}], {}])
    assert (built["ys"], built["bad"]) == ([[3, None, 1]], [2])


def test_points_that_come_late_take_their_place(ask: Ask) -> None:
    built = ask("lines.js", BUILD, [[{"attempt": 1, "step": [1, 3, 2, 3], "value": [1, 3, 2, 4]}], {}])
    assert (built["x"], built["ys"]) == ([1, 2, 3], [[1, 2, 4]])


def test_smoothing_keeps_the_raw_line_behind_and_does_not_move_a_flat_one(ask: Ask) -> None:
    built = ask("lines.js", BUILD, [[{"attempt": 1, "step": [1, 2, 3], "value": [2, 2, 2]}], {"smoothing": 0.9}])
    assert [column["kind"] for column in built["columns"]] == ["raw", "main"]
    assert built["ys"][1] == pytest.approx([2, 2, 2])


def test_a_logarithmic_axis_leaves_out_what_it_cannot_show(ask: Ask) -> None:
    built = ask("lines.js", BUILD, [[{"attempt": 1, "step": [1, 2], "value": [0, 10]}], {"isLog": True}])
    assert built["ys"] == [[None, 10]]


RENDER = """({render}, text) => {
    const row = document.createElement("div");
    row.append(...render(text));
    return [row.textContent, row.innerHTML];
}"""


@pytest.mark.parametrize(
    ("line", "text", "html"),
    [
        ("plain", "plain", "plain"),
        ("\x1b[31mred\x1b[0m rest", "red rest", '<span class="ansi-red">red</span> rest'),
        ("<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>", "&lt;img src=x onerror=alert(1)&gt;"),
        ("\x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07", "link", "link"),
        ("\x1b[2J\x1b[1;1Hclear", "clear", "clear"),
        (" 10 %\r 20 %\r 30 %", " 30 %", " 30 %"),
        ("a\x00\x08b", "ab", "ab"),
    ],
)
def test_a_log_line_is_text_whatever_it_holds(line: str, text: str, html: str, ask: Ask) -> None:
    assert ask("ansi.js", RENDER, line) == [text, html]


def test_patching_changes_what_differs_and_keeps_what_a_person_did(page: Page, ask: Ask) -> None:
    fold = "<details><summary>more</summary></details>"
    before = f"<ul><li data-key=a><input type=checkbox>one</li><li data-key=b>two</li></ul>{fold}"
    after = f"<ul><li data-key=c>new</li><li data-key=a><input type=checkbox>uno</li></ul>{fold}"
    kept = ask(
        "patch.js",
        """({patch}, [before, after]) => {
            const place = document.getElementById("place");
            place.innerHTML = before;
            const box = place.querySelector("input");
            box.checked = true;
            box.focus();
            place.querySelector("details").open = true;
            patch(place, after);
            return [place.querySelector("input") === box, box.checked, document.activeElement === box,
                    place.querySelector("details").open, place.querySelector("ul").textContent];
        }""",
        [before, after],
    )
    assert kept == [True, True, True, True, "newuno"]


def test_a_line_knows_its_extremes(ask: Ask) -> None:
    entry = """({build}) => {
      const part = {step: [1, 2, 3], time: [1, 2, 3], value: [3, NaN, 1], min: null, max: null};
      const lines = new Map([["{}", {labels: {}, parts: new Map([[1, part]])}]]);
      return build({lines}, {}).extremes.get("{}");
    }"""
    assert ask("lines.js", entry) == {"min": 1, "max": 3}
