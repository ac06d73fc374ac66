"""Keys of every page."""

from __future__ import annotations

import pytest

from tests.dashboard.js.conftest import Ask

PRESS = """async ({startKeys}, keys) => {
    const place = document.getElementById("place");
    place.innerHTML = '<a data-keys="g r" href="#runs">Runs</a>';
    location.hash = "";
    const problems = [];
    const onError = (event) => problems.push(event.message);
    addEventListener("error", onError);
    globalThis.hasKeys ??= startKeys() ?? true;
    for (const key of keys) document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    removeEventListener("error", onError);
    return [location.hash, problems];
}"""


PRESS_A_BUTTON = """async ({startKeys}, key) => {
    const place = document.getElementById("place");
    place.innerHTML = '<button data-hotkey="p">Pause</button><input>';
    const pressed = [];
    place.querySelector("button").addEventListener("click", () => pressed.push(key));
    globalThis.hasKeys ??= startKeys() ?? true;
    for (const target of [document.body, place.querySelector("input")])
        target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    return pressed.length;
}"""


@pytest.mark.parametrize(("key", "num"), [("p", 1), ("q", 0)])
def test_a_key_presses_the_button_that_names_it_except_while_one_types(key: str, num: int, ask_page: Ask) -> None:
    assert ask_page("frame/keys.js", PRESS_A_BUTTON, key) == num


@pytest.mark.parametrize(
    ("keys", "hash_"), [(["g", "r"], "#runs"), (["r"], ""), (["g", "x"], ""), (["g", '"'], ""), (["g", "\\"], "")]
)
def test_g_and_a_letter_go_to_a_page_and_other_keys_nowhere(keys: list[str], hash_: str, ask_page: Ask) -> None:
    assert ask_page("frame/keys.js", PRESS, keys) == [hash_, []]
