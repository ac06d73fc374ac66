"""A chart's card on a page of its own: real modules, real template and styles, points that the test makes."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pytest
from django.template import Context, Template
from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.up_process import ROOT

SITE = "http://cards.invalid"
STYLES = ("tokens", "base", "buttons", "fields", "components", "floating", "charts")
# The page's part of the bargain, as small as it may be.
HARNESS = """
import { Card } from "/static/js/charts/cards/card.js";
import { Crosshair } from "/static/js/charts/interaction/crosshair.js";
import { Fullscreen } from "/static/js/charts/interaction/fullscreen.js";
import { axisOf, lineKey } from "/static/js/charts/data/names.js";
import { partOf } from "/static/js/charts/data/parts.js";
import { formatOf } from "/static/js/shared/format.js";

const cards = new Map();
const loaded = new Map();
const zoom = {};
const own = {};
const sort = { by: "name", isDescending: false };
const state = { axis: "step", smoothing: { kind: "none", amount: 0 }, ranks: "lines", sort };
const redraw = () => [...cards.values()].forEach((card) => card.draw());
const context = {
  want() {},
  entry: (name) => loaded.get(name),
  axisOf,
  formatOf, titleOf: (name) => name, problemOf: () => "", isPanel: () => false,
  windows: { range: (axis) => zoom[axis] ?? null },
  template: document.querySelector("template.card-template"),
  settings: (name) => ({ ...state, starts: new Map(), group: null, ...own[name] }),
  change: (name, patch) => { own[name] = { ...own[name], ...patch }; redraw(); },
  changeAll: (patch) => { Object.assign(state, patch); redraw(); },
  colourOf: (key, built) => [...built.lines.keys()].indexOf(key),
  labelOf: (key, built) => Object.entries(built.lines.get(key).labels).flat().join(" ") || "all",
  crosshair: new Crosshair(),
  onZoom: (axis, range) => { zoom[axis] = range; redraw(); },
  onPin() {}, isPinned: () => false, onOpen: (name) => full.open(name),
  marksOf: (name) => (name === "guarded"
    ? [{ run: "r", attempt: 1, x: 2, sentence: "It rose to 9 at step 2.", kind: "alarm" }] : []),
  causeOf: (run, attempt) => (attempt === 2 ? { sentence: "Attempt 2 began after node-b was lost." } : null),
  csvUrl: () => "/points.csv",
  parquetUrl: () => "/points.parquet",
};
const full = new Fullscreen(() => cards, () => {});

// parts: as an answer of the server has series
function put(name, parts) {
  const lines = new Map();
  for (const { labels = {}, attempt = 1, superseded, ...part } of parts) {
    const key = lineKey("r", labels);
    if (!lines.has(key)) lines.set(key, { run: "r", labels, parts: new Map(), tails: new Map() });
    lines.get(key)[superseded ? "tails" : "parts"].set(attempt, partOf({ time: part.step, ...part }));
  }
  loaded.set(name, { cursors: new Map(), lines });
  if (cards.has(name)) return cards.get(name).draw();
  const card = new Card(name, context);
  cards.set(name, card);
  document.querySelector(".chart-grid").append(card.element);
  card.show();
}
function clear() {
  cards.forEach((card) => card.close());
  [cards, loaded].forEach((all) => all.clear());
  for (const all of [zoom, own]) Object.keys(all).forEach((key) => delete all[key]);
}
Object.assign(window, { loaded, put, clear, zoom, context, cards, isReady: true });
"""


def page_of_cards() -> str:
    source = (ROOT / "templates" / "runs" / "_charts.html").read_text()
    start = source.index('<template class="card-template">')
    card = Template("{% load ui %}" + source[start : source.index("</template>", start) + 11]).render(Context())
    styles = "".join(f'<link rel="stylesheet" href="/static/css/{name}.css">' for name in STYLES)
    return f"""<!doctype html><html lang="en"><title>Cards</title>{styles}
        <main><div class="chart-grid"></div></main>{card}<script type="module">{HARNESS}</script></html>"""


def serve(route: Route) -> None:
    path = route.request.url.removeprefix(SITE).partition("?")[0]
    if path == "/":
        return route.fulfill(content_type="text/html", body=page_of_cards())
    npm = path.removeprefix("/static/npm/")
    file = ROOT / "node_modules" / npm if npm != path else ROOT / path.removeprefix("/")
    if not file.is_file():
        return route.fulfill(status=404)
    return route.fulfill(content_type=mimetypes.guess_type(file.name)[0] or "text/plain", body=file.read_bytes())


@pytest.fixture(scope="module")
def table(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 900, "height": 700})
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.route(f"{SITE}/**", serve)
    page.goto(f"{SITE}/")
    page.wait_for_function("window.isReady")
    yield page
    page.close()
    assert problems == []


@pytest.fixture(autouse=True)
def empty_table(table: Page) -> None:
    table.mouse.move(0, 0)
    table.evaluate("clear()")


def lay(page: Page, name: str, *parts: dict[str, Any]) -> Locator:
    page.evaluate("([name, parts]) => put(name, parts)", [name, list(parts)])
    return page.get_by_role("article", name=name, exact=True)


def line(*values: Any, first: int = 1, **more: Any) -> dict[str, Any]:
    return {"step": list(range(first, first + len(values))), "value": list(values), **more}


def point_at(page: Page, card: Locator, step: float, top: float = 20) -> None:
    box = card.locator(".chart-over").bounding_box()
    assert box
    page.mouse.move(box["x"] + card.evaluate("(card, x) => card.chart.plot.toLeft(x)", step), box["y"] + top)


def value(card: Locator) -> Locator:
    return card.locator(".chart-value")


def test_a_chart_says_its_last_value_and_the_one_that_is_pointed_at(table: Page) -> None:
    card = lay(table, "train/loss", line(4, 3, 2.5))
    expect(value(card)).to_have_text("2.50")
    point_at(table, card, 2.2)
    expect(value(card)).to_have_text("step 2  ·  3")
    table.mouse.move(0, 0)
    expect(value(card)).to_have_text("2.50")


def test_the_crosshair_is_in_all_charts_of_the_axis(table: Page) -> None:
    lay(table, "system/cpu_percent", line(10, 20, 30))
    one, other = lay(table, "a", line(1, 2, 3, 4)), lay(table, "b", line(5, 6, 7, first=2))
    point_at(table, one, 3)
    expect(value(other)).to_have_text("step 3  ·  6")
    expect(value(table.get_by_role("article", name="system/cpu_percent"))).to_have_text("30 %")
    point_at(table, one, 1)
    expect(value(other)).to_have_text("7")  # it has no such step


def test_a_restart_says_its_cause_to_pointer_and_keyboard(table: Page) -> None:
    old, new = line(9, 8, 7, attempt=1), line(6, 5, 4, first=4, attempt=2)
    card = lay(table, "train/loss", old, line(8, 8, first=4, attempt=1, superseded=True), new)
    flag = card.get_by_role("button", name="Attempt 2 began after node-b was lost.")
    expect(flag.locator("span")).to_be_hidden()
    flag.hover()
    expect(flag.locator("span")).to_be_visible()
    point_at(table, card, 4)
    expect(value(card)).to_have_text("restarted here  ·  step 4  ·  6")
    table.mouse.move(0, 0)
    card.get_by_role("application").focus()
    for _ in range(4):
        table.keyboard.press("ArrowRight")
    expect(card.locator("[aria-live]")).to_have_text("step 4: 6. Attempt 2 began after node-b was lost.")
    table.keyboard.press("Tab")
    expect(flag).to_be_focused()
    expect(flag.locator("span")).to_be_visible()


def test_a_value_that_broke_a_rule_is_marked_with_its_sentence(table: Page) -> None:
    card = lay(table, "guarded", line(1, 9, 1))
    flag = card.get_by_role("button", name="It rose to 9 at step 2.")
    flag.hover()
    expect(flag.locator("span")).to_be_visible()
    point_at(table, card, 2)
    expect(value(card)).to_have_text("broke a rule  ·  step 2  ·  9")


@pytest.mark.parametrize(
    ("values", "words"),
    [(["NaN", "NaN", "Infinity"], "no value here is a number"), ([], "no points yet"), ([3], ""), ([2, "NaN"], "")],
)
def test_a_chart_without_a_line_says_why(values: list[Any], words: str, table: Page) -> None:
    card = lay(table, "odd", *([line(*values)] if values else []))
    expect(card.locator(".chart-nothing")).to_have_text(words)
    for change in ("{isLogX: true}", "{isLogY: true}", "{axis: 'relative'}", "{axis: 'time'}"):
        table.evaluate(f"context.change('odd', {change})")
        assert card.evaluate("(card) => card.chart.plot.range.every(Number.isFinite)")


def test_a_chart_that_a_key_makes_logarithmic_says_why_its_line_is_gone(table: Page) -> None:
    card = lay(table, "odd", line(-2, -1))
    for words in ("no value is above zero, as log y needs", ""):
        card.get_by_role("application").press("l")
        expect(card.locator(".chart-nothing")).to_have_text(words)


def test_signs_show_what_is_no_number(table: Page) -> None:
    card = lay(table, "odd", line(1, "NaN", 2, "Infinity", 3, "-Infinity", 4))
    reds = """(card) => {
        const {frame} = card.chart.plot;
        const {data, width} = frame.ctx.getImageData(0, 0, frame.canvas.width, frame.canvas.height);
        const isRed = (x, y) => {
            const at = 4 * (Math.round(y) * width + Math.round(x));
            return data[at] > 150 && data[at + 2] < 60 && data[at + 3] > 200;
        };
        const [top, bottom] = [frame.bbox.top, frame.bbox.top + frame.bbox.height];
        const at = (x) => frame.leftOf(x);
        return [isRed(at(2), bottom - 3), isRed(at(4), top + 4), isRed(at(6), bottom - 4), isRed(at(4), bottom - 4)];
    }"""
    assert card.evaluate(reds) == [True, True, True, False]
    point_at(table, card, 4, top=3)
    expect(value(card)).to_have_text("step 4  ·  ∞")
    card.get_by_role("application").focus()
    table.keyboard.press("ArrowLeft")
    table.keyboard.press("ArrowLeft")
    expect(value(card)).to_have_text("step 2  ·  NaN")
    expect(card.locator("[aria-live]")).to_have_text("step 2: NaN")


def test_a_spike_of_one_bucket_is_drawn_to_its_tip(table: Page) -> None:
    steps = list(range(1, 1001))
    flat, high = [1.0] * 1000, [1.1] * 1000
    high[499] = 50.0
    card = lay(
        table, "spiky", {"kind": "buckets", "step": steps, "mean": flat, "min": [0.9] * 1000, "max": high, "last": flat}
    )
    drawn = """(card) => {
        const {frame} = card.chart.plot;
        const [left, top] = [Math.floor(frame.leftOf(500)), Math.round(frame.topOf(25))];
        const {data} = frame.ctx.getImageData(left - 2, top, 5, 1);
        return Math.max(...[3, 7, 11, 15, 19].map((at) => data[at]));
    }"""
    assert card.evaluate(drawn) > 150
    point_at(table, card, 500, top=14)
    expect(card.locator(".chart-spread")).to_have_text("0.900 … 50")


def test_drag_zooms_shift_and_drag_pans_the_wheel_zooms_and_a_double_click_gives_all_back(table: Page) -> None:
    card = lay(table, "train/loss", line(*range(100)))
    drag(table, card, 20, 60)
    assert seen(table) == pytest.approx([20, 60], abs=1)
    table.keyboard.down("Shift")
    drag(table, card, 50, 40)
    table.keyboard.up("Shift")
    table.wait_for_function("zoom.step[0] > 25")
    assert seen(table) == pytest.approx([30, 70], abs=1.5)
    point_at(table, card, 50)
    table.keyboard.down("Control")
    table.mouse.wheel(0, -300)
    table.keyboard.up("Control")
    table.wait_for_function("zoom.step[1] - zoom.step[0] < 39")
    assert sum(seen(table)) / 2 == pytest.approx(50, abs=2)
    card.locator(".chart-over").dblclick(position={"x": 30, "y": 30})
    table.wait_for_function("zoom.step === null")


def test_keys_zoom_pan_and_give_all_back(table: Page) -> None:
    card = lay(table, "train/loss", line(*range(101)))
    card.get_by_role("application").focus()
    for key, range_ in (
        ("+", [26, 76]),
        ("]", [38.5, 88.5]),
        ("[", [26, 76]),
        ("-", None),
        ("+", [26, 76]),
        ("0", None),
    ):
        table.keyboard.press(key)
        table.wait_for_function("(range) => String(zoom.step) === String(range)", arg=range_)
    table.keyboard.press("End")
    expect(value(card)).to_have_text("step 101  ·  100")
    table.keyboard.press("Home")
    expect(value(card)).to_have_text("step 1  ·  0")
    table.keyboard.press("Shift+ArrowRight")
    expect(value(card)).to_have_text("step 11  ·  10")


def test_the_arrows_choose_a_line_and_its_value_alone_is_said(table: Page) -> None:
    card = lay(table, "rank/wait", line(1, 2, labels={"rank": "0"}), line(3, 4, labels={"rank": "1"}))
    card.get_by_role("application").focus()
    expect(card.locator("[aria-live]")).to_have_text("2 lines")
    table.keyboard.press("ArrowRight")
    expect(card.locator("[aria-live]")).to_have_text("step 1: rank 0 1, rank 1 3")
    table.keyboard.press("ArrowDown")
    table.keyboard.press("ArrowDown")
    expect(card.locator("[aria-live]")).to_have_text("step 1: rank 1 3")
    expect(card.locator("tr.is-lit")).to_contain_text("rank 1")
    expect(card.locator(".chart-spread")).to_have_text("rank 1  3")


def test_live_points_leave_the_view_and_the_crosshair_where_they_are(table: Page) -> None:
    card = lay(table, "train/loss", line(*range(100)))
    drag(table, card, 20, 60)
    point_at(table, card, 30)
    expect(value(card)).to_have_text("step 30  ·  29")
    before = seen(table)
    lay(table, "train/loss", line(*range(150)))
    expect(value(card)).to_have_text("step 30  ·  29")
    assert card.evaluate("(card) => card.chart.plot.range") == before
    table.evaluate("context.onZoom('step', null)")
    assert card.evaluate("(card) => card.chart.plot.range") == [1, 150]


def test_names_are_text_whatever_they_hold(table: Page) -> None:
    name = "<img src=x onerror=alert(1)>/" + "שלום 🚂 " * 1000
    card = lay(table, name, line(1, 2, labels={"<b>": "x"}), line(2, 3, labels={"<b>": "y"}))
    expect(card.locator("tbody th").first).to_have_text("<b> x")
    assert card.locator("img, b").count() == 0
    assert card.evaluate("(card) => card.scrollWidth <= card.clientWidth")


def test_a_chart_that_is_closed_leaves_nothing_behind(table: Page) -> None:
    lay(table, "train/loss", line(1, 2))
    table.evaluate("clear()")
    assert table.locator("canvas").count() == 0
    assert table.evaluate("context.crosshair.members.size") == 0


def drag(page: Page, card: Locator, start: float, end: float) -> None:
    lefts = card.evaluate("(card, steps) => steps.map((x) => card.chart.plot.toLeft(x))", [start, end])
    box = card.locator(".chart-over").bounding_box()
    assert box
    page.mouse.move(box["x"] + lefts[0], box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + lefts[1], box["y"] + 40, steps=4)
    page.mouse.up()
    page.evaluate("new Promise((painted) => requestAnimationFrame(() => requestAnimationFrame(painted)))")


def seen(page: Page) -> list[float]:
    zoom: list[float] = page.evaluate("zoom.step")
    return zoom


@pytest.mark.parametrize(
    "key", ["ArrowRight", "ArrowLeft", "+", "-", "0", "[", "]", "Home", "End", "ArrowDown", "Escape"]
)
def test_a_key_on_a_chart_without_a_plot_does_nothing(table: Page, key: str) -> None:
    problems: list[str] = []
    table.on("pageerror", lambda error: problems.append(str(error)))
    table.evaluate("""() => {
        put("train/empty", []);
        loaded.delete("train/empty");
        put("train/loss", [{step: [1, 2, 3], value: [3, 2, 1]}]);
        cards.get("train/empty").hide(); cards.get("train/empty").show();
    }""")
    waiting = table.get_by_role("article", name="train/empty", exact=True).locator(".chart-plot")
    waiting.press(key)
    away = table.get_by_role("article", name="train/loss", exact=True).locator(".chart-plot")
    away.focus()
    table.evaluate("cards.get('train/loss').hide()")  # it was scrolled out of sight, and keeps the focus
    away.press(key)
    assert problems == []


def test_a_chart_is_read_as_a_table_a_page_at_a_time(table: Page) -> None:
    card = lay(table, "train/loss", line(*range(60, 0, -1)))
    card.hover()
    card.get_by_role("button", name="As a table").click()
    rows = card.locator(".chart-values tbody tr")
    expect(rows).to_have_count(25)
    assert rows.first.all_inner_texts() == ["60\t1"], "the newest first"
    card.get_by_role("button", name="Older").click()
    expect(rows.first).to_have_text("3526")
    expect(card.locator(".chart-values")).to_contain_text("26 to 50 of 60")
    card.get_by_role("button", name="As a table").click()
    expect(rows).to_have_count(25)
    expect(card.locator(".chart-values")).to_be_hidden()


def test_a_plots_name_says_how_its_lines_went(table: Page) -> None:
    card = lay(table, "train/loss", line(4, 5, 1, 2))
    name = "Plot of train/loss: fell from 4 to 2, least 1, greatest 5"
    expect(card.get_by_role("application", name=name)).to_be_visible()
    level = lay(table, "b", line(4, 9, 4))
    expect(level.get_by_role("application", name="Plot of b: stayed near 4, least 4, greatest 9")).to_be_visible()


def test_a_picture_as_svg_has_what_the_card_shows_as_texts_and_lines(table: Page) -> None:
    name = "loss <b> & \u202emore"
    card = lay(table, name, line(4, 3, 2.5, labels={"rank": "0"}), line(5, 4, 3.5, labels={"rank": "1"}))
    script = "(one) => import('/static/js/charts/drawing/picture.js').then((its) => its.picture(one.chart, 'svg'))"
    text = card.evaluate(f"(one) => ({script})(one).then((blob) => blob.text())")
    shown = [one.text for one in ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}text")]
    assert {name, "step", "value", "3.50"} <= {*shown}  # its title, the axis of x, the legend with its last values
    legend = card.get_by_role("row").all_inner_texts()[1:]
    assert len(legend) == 2 and all(any(row.startswith(str(one)) for one in shown if one) for row in legend)
    lines = re.findall(r'<path d="M[^"]*L[^"]*" stroke-width="[\d.]+" stroke-dasharray="" fill="none"', text)
    assert len(lines) >= 4  # both axes, and a line of each rank
    assert table.evaluate("() => document.querySelector('canvas').toDataURL().length") > 1000  # its canvas is its own
