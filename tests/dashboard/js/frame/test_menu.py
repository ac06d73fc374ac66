"""Menus: popovers that one moves through with the arrow keys."""

from __future__ import annotations

import pytest

from tests.dashboard.js.conftest import Ask

MOVE = """async ({mount}, items) => {
    const place = document.getElementById("place");
    place.innerHTML = `<button popovertarget="menu">open</button><div id="menu" popover>${items}</div>`;
    const menu = place.querySelector("#menu");
    mount(menu);
    const opened = new Promise((done) => menu.addEventListener("toggle", done, { once: true }));
    menu.showPopover();
    await opened;
    const found = [document.activeElement.id];
    for (const key of ["ArrowDown", "ArrowDown", "ArrowUp"]) {
        document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
        found.push(document.activeElement.id);
    }
    return found;
}"""


@pytest.mark.parametrize(
    "items",
    [
        '<a href="#" id="a">a</a><button id="b">b</button><button disabled>no</button>',
        '<label><input type="checkbox" id="a">a</label><label><input type="checkbox" id="b">b</label>',
        '<button id="a">a</button><form><input type="hidden"><button id="b">b</button></form>',
    ],
)
def test_arrow_keys_go_round(items: str, ask_page: Ask) -> None:
    assert ask_page("frame/menu.js", MOVE, items) == ["a", "b", "a", "b"]
