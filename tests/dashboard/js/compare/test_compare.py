"""The page that compares runs, with a server that answers when the test lets it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard.js.conftest import Ask

# The list's rows are those that an answer names; each answer waits for `answer(place among those asked, ids)`.
SETUP = """
    const row = (id) => `<tr class="grid-row series-1" data-key="${id}"><td><input class="row-check" type="checkbox"
        name="run" value="${id}"></td><td><a class="name">${id}</a></td><td data-of="status"></td><td><button
        class="run-dot" data-pick></button><button data-close>close ${id}</button></td></tr>`;
    const known = (ids) => JSON.stringify(ids.map((id) => ({ id, colour: 0, fields: {} })));
    const list = (ids, head = "") => `${head}<div><table class="grid-view" data-grouped
        data-rows="${ids.length}"><tbody>${ids.map(row).join("")}</tbody></table></div>
        <script id="compared-runs" type="application/json">${known(ids)}<\\/script>`;
    const place = document.getElementById("place");
    history.replaceState(null, "", "?run=a&run=b&run=c");
    place.innerHTML = `<div data-jump="/jump"><b data-count></b><button data-fold></button>
        <div data-part="list">${list(["a", "b", "c"])}</div>
        <div data-part="specs"></div><div data-module="charts"></div>
        <div data-add><input><ul role="listbox"></ul></div><div id="swatches" popover></div></div>`;
    const asked = [];
    const { fetch } = globalThis;
    globalThis.fetch = (url) => new Promise((done) => asked.push({ url, done }));
    const rest = () => new Promise((go) => setTimeout(go));
    const lists = () => asked.filter(({ url }) => url.includes("fragment=list"));
    const answer = async (one, html) => { one.done({ ok: true, text: async () => html }); await rest(); };
    const page = place.firstElementChild;
    const charts = page.querySelector("[data-module=charts]");
    const heard = [];
    charts.addEventListener("workspace", ({ detail }) => heard.push(detail));
    const unmount = mount(page);
    const rows = () => [...page.querySelectorAll(".grid-row .name")].map((one) => one.textContent);
"""


@pytest.fixture
def compare(ask_page: Ask) -> Any:
    """``compare("…; return rows();")`` -> what it returned."""

    def run(steps: str) -> Any:
        end = "} finally { globalThis.fetch = fetch; unmount(); history.replaceState(null, '', '/'); }"
        return ask_page("compare/compare.js", f"async ({{mount}}) => {{ {SETUP} try {{ {steps} {end} }}")

    return run


def test_an_answer_that_comes_late_does_not_undo_a_newer_one(compare: Any) -> None:
    found = compare("""
        page.querySelector("[data-key=c] [data-close]").click();
        page.querySelector("[data-key=b] [data-close]").click();
        const [old, newer] = lists();
        await answer(newer, list(["a"], "<i>newer</i>"));
        await answer(old, list(["a", "b"], "<i>old</i>"));
        return [page.querySelector("i").textContent, rows()];
    """)
    assert found == ["newer", ["a"]]


def test_a_run_that_was_just_added_is_not_said_to_be_deleted_by_an_older_answer(compare: Any) -> None:
    found = compare("""
        page.querySelector("[data-key=c] [data-close]").click();
        history.replaceState(null, "", "?run=a&run=b&run=d");
        page.querySelector("[data-key=b] [data-close]").click();
        const [old, newer] = lists();
        await answer(newer, list(["a", "d"]));
        await answer(old, list(["a", "b"]));
        return [rows(), page.querySelectorAll(".is-gone").length];
    """)
    assert found == [["a", "d"], 0]


def test_boxes_that_say_what_is_shown_are_nobodys_choice(compare: Any) -> None:
    found = compare("""
        const boxes = [...page.querySelectorAll(".row-check")];
        return [heard.filter(({ hidden }) => hidden), boxes.map((one) => one.checked)];
    """)
    assert found == [[], [True, True, True]]


def test_who_takes_a_run_out_comes_to_the_next_one_past_the_head_of_a_group(compare: Any) -> None:
    found = compare("""
        const head = '<tr class="grid-group" data-key="group-lr" data-group="lr 1"><td></td></tr>';
        page.querySelector("[data-key=c]").insertAdjacentHTML("beforebegin", head);
        page.querySelector("[data-key=b] [data-close]").click();
        const next = document.activeElement.textContent;
        page.querySelector("[data-key=c] [data-close]").click();
        return [next, document.activeElement.textContent];
    """)
    assert found == ["close c", "close a"]


def test_a_pointer_that_moves_within_a_row_leaves_its_lines_lit(compare: Any) -> None:
    found = compare("""
        const [eye, name] = [".row-check", ".name"].map((part) => page.querySelector(`[data-key=a] ${part}`));
        const moved = (type, relatedTarget) => new PointerEvent(type, { bubbles: true, relatedTarget });
        const point = (type, from, to) => from.dispatchEvent(moved(type, to));
        heard.length = 0;
        point("pointerover", eye, null);
        point("pointerover", name, eye);
        point("pointerover", page.querySelector("tbody"), name);
        return heard.map(({ lit }) => lit?.key ?? null);
    """)
    assert found == ["run a", None]


ADDING = """
    const input = page.querySelector("[data-add] input");
    const found = page.querySelector("[role=listbox]");
    const soon = (ms) => new Promise((go) => setTimeout(go, ms));
    const type = async (words) => { input.value = words; input.dispatchEvent(new Event("input")); await soon(150); };
    const press = (key) => input.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    const items = (...ids) => ({ ok: true, json: async () => ({
        items: ids.map((id) => ({ url: `/runs/${id}/`, label: id, kind: "succeeded" })),
    }) });
    globalThis.fetch = (url) => url.startsWith("/jump")
        ? Promise.resolve(url.endsWith("q=new") ? items("new") : items("old"))
        : new Promise((done) => asked.push({ url, done }));
"""


def test_enter_adds_what_was_typed_last_though_its_answer_is_not_there_yet(compare: Any) -> None:
    steps = (
        ADDING
        + """
        await type("old");
        input.value = "new";
        input.dispatchEvent(new Event("input"));
        press("Enter");
        await soon(50);
        return new URLSearchParams(location.search).getAll("run");
    """
    )
    assert compare(steps) == ["a", "b", "c", "new"]


def test_who_goes_elsewhere_closes_the_list_of_runs_to_add_and_finds_it_again(compare: Any) -> None:
    steps = (
        ADDING
        + """
        input.focus();
        await type("old");
        const shown = [[found.hidden, input.ariaExpanded]];
        page.querySelector("[data-fold]").focus();
        shown.push([found.hidden, input.ariaExpanded]);
        input.focus();
        await soon(50);
        return [...shown, [found.hidden, input.ariaExpanded, input.value]];
    """
    )
    assert compare(steps) == [[False, "true"], [True, "false"], [False, "true", "old"]]
