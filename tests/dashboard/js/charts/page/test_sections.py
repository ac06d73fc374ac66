"""Where charts lie on the page."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page

from tests.dashboard.js.conftest import Ask

NAMES = [
    "system/gpu_percent", "zeta/10", "zeta/9", "train/tokens_per_second", "val/loss", "train/loss", "loose",
    "train/zebra", "rank/step_seconds", "alpha/x", "pinned/x",
]  # fmt: skip
PLAN = "({planned}, [names, pinned]) => planned(names, pinned).map(({title, names}) => [title, names])"
PLACE = """
  const template = document.createElement("template");
  template.innerHTML = `<details><summary><h2></h2><span class=count></span><span data-by-time></span></summary>
    <div class=chart-grid></div><button data-section=more></button></details>`;
  const host = document.getElementById("place");
  const elements = new Map();
  const made = (name) => Object.assign(document.createElement("article"), { textContent: name });
  const elementOf = (name) => elements.get(name) ?? elements.set(name, made(name)).get(name);
  const show = (names, { pinned = [], collapsed = [], axis = "step", isPartial = false } = {}) =>
    lay(host, template, planned(names, pinned), { collapsed, axis, isPartial, elementOf });
  const words = (section, selector) => [...section.querySelectorAll(selector)].map((one) => one.textContent);
  const seen = () => [...host.children].map((one) => [...words(one, "h2"), one.open, ...words(one, "article")]);
"""


@pytest.fixture
def plan(ask: Ask) -> Any:
    return lambda names, pinned=(): [tuple(one) for one in ask("charts/page/sections.js", PLAN, [names, list(pinned)])]


def test_sections_are_prefixes_with_training_first_and_machines_late(plan: Any) -> None:
    assert plan(NAMES) == [
        ("train & val", ["train/loss", "val/loss", "train/tokens_per_second", "train/zebra"]),
        ("rank", ["rank/step_seconds"]),
        ("alpha", ["alpha/x"]),
        ("pinned", ["pinned/x"]),
        ("zeta", ["zeta/9", "zeta/10"]),
        ("others", ["loose"]),
        ("system", ["system/gpu_percent"]),
    ]


def test_without_validation_the_first_section_does_not_name_it(plan: Any) -> None:
    assert plan(["train/loss"]) == [("train", ["train/loss"])]
    assert plan(["val/loss"]) == [("val", ["val/loss"])]
    assert plan([]) == []


def test_what_is_pinned_stands_first_in_the_order_of_pinning_and_nowhere_else(plan: Any) -> None:
    found = plan(["train/loss", "zeta/9", "a/b"], ["zeta/9", "not/here", "train/loss"])
    assert found == [("Pinned", ["zeta/9", "train/loss"]), ("a", ["a/b"])]


def test_a_series_that_is_called_as_the_pinned_section_has_its_own(plan: Any) -> None:
    assert [title for title, _ in plan(["pinned/x", "train/loss"], ["train/loss"])] == ["Pinned", "pinned"]


def test_a_name_may_be_a_word_of_the_language(plan: Any) -> None:
    assert plan(["constructor/__proto__", "__proto__"]) == [
        ("constructor", ["constructor/__proto__"]),
        ("others", ["__proto__"]),
    ]


def test_new_metrics_come_to_their_places_and_others_stay_where_they_are(ask_page: Ask) -> None:
    first, second, is_same = ask_page(
        "charts/page/sections.js",
        f"""({{lay, planned}}) => {{ {PLACE}
          host.replaceChildren();
          show(["train/loss", "zeta/2"]);
          const [before, loss] = [seen(), elements.get("train/loss")];
          let moved = 0;
          new MutationObserver((all) => (moved += all.length)).observe(loss.parentElement, {{ childList: true }});
          show(["zeta/1", "train/loss", "zeta/2", "val/loss"]);
          return [before, seen(), loss === host.querySelector("article")];
        }}""",
    )
    assert first == [["train", True, "train/loss"], ["zeta", True, "zeta/2"]]
    assert second == [["train & val", True, "train/loss", "val/loss"], ["zeta", True, "zeta/1", "zeta/2"]]
    assert is_same


def test_a_section_is_folded_as_it_was_kept_and_one_without_charts_is_gone(ask_page: Ask) -> None:
    found = ask_page(
        "charts/page/sections.js",
        f"""({{lay, planned}}) => {{ {PLACE}
          host.replaceChildren();
          show(["train/loss", "zeta/2"], {{ collapsed: ["zeta"] }});
          const folded = seen();
          show(["zeta/2"], {{ collapsed: [] }});
          return [folded, seen()];
        }}""",
    )
    assert found == [[["train", True, "train/loss"], ["zeta", False, "zeta/2"]], [["zeta", True, "zeta/2"]]]


def test_a_section_says_how_many_charts_it_has_only_where_all_are_listed(ask_page: Ask) -> None:
    found = ask_page(
        "charts/page/sections.js",
        f"""({{lay, planned}}) => {{ {PLACE}
          host.replaceChildren();
          show(["zeta/1", "zeta/2"]);
          const whole = words(host, ".count");
          show(["zeta/1", "zeta/2"], {{ isPartial: true }});
          return [whole, words(host, ".count")];
        }}""",
    )
    assert found == [["2"], [""]]


def test_markup_in_a_prefix_is_text(ask_page: Ask, page: Page) -> None:
    found = ask_page(
        "charts/page/sections.js",
        f"""({{lay, planned}}) => {{ {PLACE}
          host.replaceChildren();
          show(["<img src=x onerror=alert(1)>/x"]);
          return seen();
        }}""",
    )
    assert found[0][0] == "<img src=x onerror=alert(1)>"
    assert page.locator("#place img").count() == 0


def test_a_card_that_moves_takes_the_focus_along(ask_page: Ask) -> None:
    found = ask_page(
        "charts/page/sections.js",
        f"""({{lay, planned}}) => {{ {PLACE}
          host.replaceChildren();
          show(["train/loss", "zeta/2"]);
          elements.get("zeta/2").tabIndex = 0;
          elements.get("zeta/2").focus();
          show(["train/loss", "zeta/2"], {{ pinned: ["zeta/2"] }});
          return [seen()[0], document.activeElement.textContent];
        }}""",
    )
    assert found == [["Pinned", True, "zeta/2"], "zeta/2"]


def test_a_page_lays_out_as_many_cards_as_it_has_room_for_and_those_that_were_asked_for(ask: Ask) -> None:
    function = """({cut, planned}, [most, asked]) => {
      const names = ["a/1", "a/2", "a/3", "b/1", "b/2"];
      return cut(planned(names, []), most, new Map(asked)).map(({cards}) => cards.length);
    }"""
    assert ask("charts/page/sections.js", function, [4, []]) == [3, 1]
    assert ask("charts/page/sections.js", function, [2, []]) == [2, 0]
    assert ask("charts/page/sections.js", function, [2, [["b", 9]]]) == [2, 2]
