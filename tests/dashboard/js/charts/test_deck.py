"""Cards are drawn while they are in view, and what nobody looked at for long is forgotten."""

from __future__ import annotations

import pytest

from tests.dashboard.js.conftest import Ask

pytestmark = pytest.mark.browser
SETUP = """
  const forgotten = [], calls = [];
  const host = document.getElementById("place");
  host.replaceChildren();
  host.style.width = "900px";
  let held = null;
  const make = (name) => {
    const element = Object.assign(document.createElement("article"), { className: "chart-card" });
    element.style.height = "300px";
    const note = (what) => () => calls.push(`${what} ${name}`);
    return { name, element, show: note("show"), hide: note("hide"), close: note("close") };
  };
  const store = { forget: (name) => forgotten.push(name) };
  const deck = new Deck(host, { make, store, isHeld: (name) => name === held });
  const rest = async () => { for (let at = 0; at < 6; at += 1) await new Promise((go) => requestAnimationFrame(go)); };
  const names = Array.from({ length: 100 }, (_, at) => `m${at}`);
  names.forEach((name) => host.append(deck.element(name)));
  const shown = () => [...deck.shown];
"""
END = "deck.close(); host.replaceChildren(); scrollTo(0, 0);"


def ask_deck(ask: Ask, steps: str) -> object:
    return ask("charts/deck.js", f"async ({{Deck}}) => {{ {SETUP} await rest(); {steps} }}")


def test_only_cards_in_view_are_drawn(ask: Ask) -> None:
    num, hidden, later = ask_deck(  # type: ignore[misc]
        ask,
        f"""const before = shown();
          scrollTo(0, 15_000); await rest();
          const after = shown(); {END}
          return [before.length, before.every((name) => calls.includes(`hide ${{name}}`)), after.includes("m50")];""",
    )
    assert 0 < num < 10 and hidden and later


def test_what_was_not_looked_at_for_longest_is_forgotten_first(ask: Ask) -> None:
    found = ask_deck(
        ask,
        f"""for (let at = 0; at < 100; at += 2) {{ scrollTo(0, at * 300); await rest(); }}
          const kept = new Set(names.filter((name) => !forgotten.includes(name))); {END}
          const isOnce = new Set(forgotten).size === forgotten.length;
          return [kept.size <= 40, forgotten.slice(0, 2), kept.has("m99"), isOnce];""",
    )
    assert found == [True, ["m0", "m1"], True, True]


def test_what_somebody_looks_at_elsewhere_is_not_forgotten(ask: Ask) -> None:
    found = ask_deck(
        ask,
        f"""held = "m0";
          for (let at = 0; at < 100; at += 2) {{ scrollTo(0, at * 300); await rest(); }}
          {END} return [forgotten.includes("m0"), forgotten.includes("m1")];""",
    )
    assert found == [False, True]


def test_cards_that_are_not_wanted_are_closed_and_gone(ask: Ask) -> None:
    found = ask_deck(
        ask,
        f"""deck.keep(new Set(["m1", "m2"]));
          const there = [[...deck.ordered().keys()], host.children.length, calls.includes("close m0")]; {END}
          return there;""",
    )
    assert found == [["m1", "m2"], 2, True]


def test_there_are_as_many_columns_as_there_is_room_for(ask: Ask) -> None:
    found = ask_deck(
        ask,
        f"""const columns = () => host.style.getPropertyValue("--columns");
          const wide = columns();
          host.style.width = "350px"; await rest();
          const narrow = columns(); host.style.width = ""; {END}
          return [wide, narrow];""",
    )
    assert found == ["3", "1"]
