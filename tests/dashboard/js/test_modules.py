"""The pure parts of the browser's modules, in a real Chromium: formats, cursors, lines, log colours, patching."""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.conf import settings
from playwright.sync_api import Browser, Page, Route

from runs.api.columns import as_columns
from runs.metrics.curves import Curve
from tests.dashboard.test_numbers import AGES, DURATIONS, NOW, NUMBERS, SIZES

pytestmark = pytest.mark.browser
FOLDER = settings.BASE_DIR / "static" / "js"
Ask = Callable[..., Any]


def serve(route: Route) -> None:
    """The modules as they are, and an empty page to import them in."""
    name = route.request.url.removeprefix("http://modules.invalid/")
    if not name:
        return route.fulfill(content_type="text/html", body="<!doctype html><main id=place></main>")
    if not (FOLDER / name).is_file():
        return route.fulfill(status=404)
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
        ({"type": "refetch", "from": 2, "cursor": 2}, 5, "deliver"),  # the store has less than it had
        ({"type": "ping", "cursor": 5}, 5, "deliver"),
        ({"type": "ping", "cursor": 6}, 5, "hole"),
    ],
)
def test_a_message_is_judged_by_its_cursor(message: dict[str, Any], cursor: int | None, verdict: str, ask: Ask) -> None:
    assert ask("live.js", "({judge}, [message, cursor]) => judge(message, cursor)", [message, cursor]) == verdict


BUILD = """async ({build}, [parts, options]) => {
    const {partOf} = await import("http://modules.invalid/charts/parts.js");
    const line = {labels: {}, parts: new Map(), tails: new Map()};
    for (const {attempt, superseded, step, time, ...columns} of parts)
        line[superseded ? "tails" : "parts"].set(attempt, partOf({step, time: time ?? step, ...columns}));
    const built = build({lines: new Map([["[]", line]])}, options);
    const ys = built.ys.map((y) => [...y].map((value) => value === undefined ? "none" : value));
    return {...built, x: [...built.x], ys, last: [...built.last]};
}"""


def test_points_become_one_line(ask: Ask) -> None:
    built = ask("charts/build.js", BUILD, [[{"attempt": 1, "step": [1, 2, 3], "value": [3, 2, 1]}], {}])
    assert (built["x"], built["ys"], built["last"]) == ([1, 2, 3], [[3, 2, 1]], [["[]", 1]])


def test_the_newest_attempt_wins_and_the_old_tail_is_a_ghost(ask: Ask) -> None:
    parts = [
        {"attempt": 1, "step": [1, 2, 3, 4], "value": [9, 8, 7, 6]},
        {"attempt": 2, "step": [3, 4, 5], "value": [5, 4, 3]},
    ]
    built = ask("charts/build.js", BUILD, [parts, {}])
    assert [column["kind"] for column in built["columns"]] == ["main", "ghost"]
    assert built["x"] == [1, 2, 3, 4, 5]
    assert built["ys"] == [[9, 8, 5, 4, 3], ["none", 8, 7, 6, "none"]]
    assert built["marks"] == [{"attempt": 2, "x": 3}]


def test_a_tail_that_came_as_one_is_the_same_ghost(ask: Ask) -> None:
    parts = [
        {"attempt": 1, "step": [1, 2], "value": [9, 8]},
        {"attempt": 1, "step": [3, 4], "value": [7, 6], "superseded": True},
        {"attempt": 2, "step": [3, 4, 5], "value": [5, 4, 3]},
    ]
    built = ask("charts/build.js", BUILD, [parts, {}])
    assert [column["kind"] for column in built["columns"]] == ["main", "ghost"]
    assert built["ys"] == [[9, 8, 5, 4, 3], ["none", 8, 7, 6, "none"]]
    assert (built["marks"], built["last"]) == ([{"attempt": 2, "x": 3}], [["[]", 3]])
    timed = [{**part, "time": [100 * part["attempt"] + step for step in part["step"]]} for part in parts]
    built = ask("charts/build.js", BUILD, [timed, {"axis": "time", "start": 100}])
    assert built["ys"] == [[9, 8, 7, 6, None, 5, 4, 3]], "over time nothing is hidden"


def test_buckets_are_a_band_around_their_means(ask: Ask) -> None:
    buckets = {"kind": "buckets", "step": [5, 10], "mean": [2, 3], "min": [1, "NaN"], "max": [3, 4], "last": [2, 9]}
    live = {"attempt": 2, "step": [11], "value": [5]}
    built = ask("charts/build.js", BUILD, [[{"attempt": 1, **buckets}, live], {}])
    assert [column["kind"] for column in built["columns"]] == ["low", "high", "main"]
    assert built["ys"] == [[1, None, 5], [3, 4, 5], [2, 3, 5]]
    assert built["last"] == [["[]", 5]]


def test_on_a_time_axis_the_pause_between_attempts_is_a_gap(ask: Ask) -> None:
    parts = [
        {"attempt": 1, "step": [1, 2], "time": [100, 101], "value": [9, 8]},
        {"attempt": 2, "step": [2, 3], "time": [200, 201], "value": [7, 6]},
    ]
    built = ask("charts/build.js", BUILD, [parts, {"axis": "time", "start": 100}])
    assert built["x"] == [0, 1, 50.5, 100, 101]
    assert built["ys"] == [[9, 8, None, 7, 6]]
    assert built["bad"] == []


def test_what_is_not_finite_is_a_gap_with_a_mark(ask: Ask) -> None:
    built = ask("charts/build.js", BUILD, [[{"attempt": 1, "step": [1, 2, 3], "value": [3, "NaN", 1]}], {}])
    assert (built["ys"], built["bad"]) == ([[3, None, 1]], [2])


def test_points_that_come_late_take_their_place(ask: Ask) -> None:
    built = ask("charts/build.js", BUILD, [[{"attempt": 1, "step": [1, 3, 2, 3], "value": [1, 3, 2, 4]}], {}])
    assert (built["x"], built["ys"]) == ([1, 2, 3], [[1, 2, 4]])


def test_smoothing_keeps_the_raw_line_behind_and_does_not_move_a_flat_one(ask: Ask) -> None:
    built = ask("charts/build.js", BUILD, [[{"attempt": 1, "step": [1, 2, 3], "value": [2, 2, 2]}], {"smoothing": 0.9}])
    assert [column["kind"] for column in built["columns"]] == ["raw", "main"]
    assert built["ys"][1] == pytest.approx([2, 2, 2])


def test_a_logarithmic_axis_leaves_out_what_it_cannot_show(ask: Ask) -> None:
    built = ask("charts/build.js", BUILD, [[{"attempt": 1, "step": [1, 2], "value": [0, 10]}], {"isLog": True}])
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
    assert ask("logs/ansi.js", RENDER, line) == [text, html]


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
      const [step, value] = [Float64Array.of(1, 2, 3), Float64Array.of(3, NaN, 1)];
      const part = {step, time: step, value, min: null, max: null, last: null};
      const lines = new Map([["{}", {labels: {}, parts: new Map([[1, part]])}]]);
      return build({lines}, {}).extremes.get("{}");
    }"""
    assert ask("charts/build.js", entry) == {"min": 1, "max": 3}


READ = """({readColumns}, bytes) => {
    const {series, ...answer} = readColumns(Uint8Array.from(bytes).buffer);
    const words = (value) => value instanceof Float64Array ? Array.from(value, String) : value;
    const entries = (one) => Object.entries(one).map(([name, value]) => [name, words(value)]);
    const read = series.map((one) => Object.fromEntries(entries(one)));
    return {...answer, series: read, isShared: series[0].step === series[1].step};
}"""


def test_columns_are_read_as_the_server_writes_them(ask: Ask) -> None:
    steps, far = np.array([1, 2, 3]), np.array([2**53 + 1, -(2**63), 0])
    values = np.array([0.1, np.nan, -np.inf])
    curves = [
        Curve("run1", name, {"gpu": "ö"}, 2, "raw", {"step": step, "time": values, "value": values}, is_old)
        for name, step, is_old in (("a", steps, False), ("b", steps, True), ("c", far, False))
    ]
    read = ask("charts/columns.js", READ, list(as_columns({"cursor": 7}, curves, is_many=False)))
    assert (read["cursor"], read["isShared"]) == (7, True)
    assert [(one["name"], one.get("superseded")) for one in read["series"]] == [("a", None), ("b", True), ("c", None)]
    assert read["series"][0]["labels"] == {"gpu": "ö"}
    assert read["series"][0]["value"] == ["0.1", "NaN", "-Infinity"]
    assert read["series"][2]["step"] == ["9007199254740992", "-9223372036854776000", "0"], "the nearest that it has"


def test_bytes_that_are_no_columns_are_refused(ask: Ask) -> None:
    refused = """({readColumns}, bytes) => {
      try { return readColumns(Uint8Array.from(bytes).buffer); } catch (error) { return String(error); }
    }"""
    assert "no columns" in ask("charts/columns.js", refused, list(b'{"cursor": 1, "series": []}'))


SPLICE = """({partOf, spliced}, [coarse, fine, window]) => {
    const whole = spliced(partOf(coarse), partOf(fine), window);
    return Object.fromEntries(Object.entries(whole).map(([name, column]) => [name, column && [...column]]));
}"""


def test_a_window_is_drawn_with_its_own_points(ask: Ask) -> None:
    def buckets(*steps: int) -> dict[str, Any]:
        columns = {name: list(steps) for name in ("time", "mean", "min", "max", "last")}
        return {"kind": "buckets", "step": list(steps), **columns}

    fine = {"step": [11, 12, 13], "time": [11, 12, 13], "value": [1, 2, 3]}
    spliced = ask("charts/parts.js", SPLICE, [buckets(10, 15, 20, 25), fine, {"axis": "step", "from": 11, "to": 13}])
    assert spliced["step"] == [10, 11, 12, 13, 15, 20, 25]
    assert spliced["min"] == [10, 1, 2, 3, 15, 20, 25]
    pushed = ask("charts/parts.js", SPLICE, [buckets(10, 12, 14, 30), fine, {"axis": "step", "from": 11, "to": 20}])
    assert pushed["step"] == [10, 11, 12, 13, 14, 30], "what was pushed after the window was read stays"
    empty = {"step": [], "time": [], "value": []}
    assert ask("charts/parts.js", SPLICE, [buckets(10, 12, 30), empty, {"axis": "step", "from": 11, "to": 20}])["step"] == [
        10,
        30,
    ]
