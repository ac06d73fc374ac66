"""Cards are drawn while they are in view, and what nobody looked at for long is forgotten."""

from __future__ import annotations

from tests.dashboard.js.conftest import Ask

SETUP = """
  const forgotten = [], calls = [];
  const host = document.getElementById("place");
  host.replaceChildren();
  host.style.width = "900px";
  let held = null;
  const template = document.createElement("template");
  template.innerHTML = `<article class=chart-card><h3 style="margin:0"></h3><div class=chart-plot></div></article>`;
  template.content.firstElementChild.style.height = "300px";
  const made = [];
  const make = (name) => {
    const element = template.content.firstElementChild.cloneNode(true);
    made.push(name);
    const note = (what) => () => calls.push(`${what} ${name}`);
    return { name, element, show: note("show"), hide: note("hide"), close: note("close") };
  };
  const store = { forget: (name) => forgotten.push(name) };
  const isHeld = (name) => name === held;
  const sizeOf = (name) => (name === "m1" ? { columns: 2, height: 400 } : { columns: 1 });
  const deck = new Deck(host, { template, make, store, isHeld, sizeOf, titleOf: (name) => name });
  const rest = async () => { for (let at = 0; at < 6; at += 1) await new Promise((go) => requestAnimationFrame(go)); };
  const names = Array.from({ length: 100 }, (_, at) => `m${at}`);
  names.forEach((name) => host.append(deck.element(name)));
  const shown = () => [...deck.shown];
"""
END = "deck.close(); host.replaceChildren(); scrollTo(0, 0);"


def ask_deck(ask: Ask, steps: str) -> object:
    return ask("charts/page/deck.js", f"async ({{Deck}}) => {{ {SETUP} await rest(); {steps} }}")


def test_only_cards_in_view_are_drawn(ask_page: Ask) -> None:
    num, hidden, later = ask_deck(  # type: ignore[misc]
        ask_page,
        f"""const before = shown();
          scrollTo(0, 15_000); await rest();
          const after = shown(); {END}
          return [before.length, before.every((name) => calls.includes(`hide ${{name}}`)), after.includes("m50")];""",
    )
    assert 0 < num < 10 and hidden and later


def test_what_was_not_looked_at_for_longest_is_forgotten_first(ask_page: Ask) -> None:
    found = ask_deck(
        ask_page,
        f"""for (let at = 0; at < 100; at += 2) {{ scrollTo(0, at * 300); await rest(); }}
          for (let at = 0; at < 100 && !deck.shown.has("m99"); at += 1) await rest();
          const kept = new Set([...deck.shown, ...deck.resting]); {END}
          const isOnce = new Set(forgotten).size === forgotten.length;
          return [kept.size <= 40, forgotten.slice(0, 2), kept.has("m99"), isOnce];""",
    )
    assert found == [True, ["m0", "m1"], True, True]


def test_what_somebody_looks_at_elsewhere_is_not_forgotten(ask_page: Ask) -> None:
    found = ask_deck(
        ask_page,
        f"""held = "m0";
          for (let at = 0; at < 100; at += 2) {{ scrollTo(0, at * 300); await rest(); }}
          {END} return [forgotten.includes("m0"), forgotten.includes("m1")];""",
    )
    assert found == [False, True]


def test_cards_that_are_not_wanted_are_closed_and_gone(ask_page: Ask) -> None:
    found = ask_deck(
        ask_page,
        f"""deck.keep(new Set(["m1", "m2"]));
          const there = [[...deck.ordered().keys()], host.children.length, calls.includes("close m0")]; {END}
          return there;""",
    )
    assert found == [["m1", "m2"], 2, True]


def test_a_card_is_made_when_it_comes_into_view_and_has_its_title_and_its_size_before(ask_page: Ask) -> None:
    found = ask_deck(
        ask_page,
        f"""const [light, wide] = [deck.element("m99"), deck.element("m1")];
          const before = [made.includes("m0"), made.includes("m99"), made.length < 10];
          const words = [light.textContent.trim(), light.getAttribute("aria-label"), light.chart.points().length];
          light.scrollIntoView(); await rest();
          const isOnce = new Set(made).size === made.length;
          const after = [made.includes("m99"), light.isConnected, host.children.length, isOnce];
          {END} return [before, words, after];""",
    )
    assert found == [[True, False, True], ["m99", "m99", 0], [True, False, 100, True]]


def test_who_leafs_through_the_cards_has_each_of_them(ask_page: Ask) -> None:
    found = ask_deck(
        ask_page,
        f"""const cards = deck.ordered();
          const there = [cards.get("m77").name, made.includes("m77"), cards.get("nothing") ?? null,
            [...cards.keys()].length, host.children[77] === deck.cards.get("m77").element]; {END}
          return there;""",
    )
    assert found == ["m77", True, None, 100, True]


def test_there_are_as_many_columns_as_there_is_room_for(ask_page: Ask) -> None:
    found = ask_deck(
        ask_page,
        f"""const columns = () => host.style.getPropertyValue("--columns");
          const wide = columns();
          host.style.width = "350px"; await rest();
          const narrow = columns(); host.style.width = ""; {END}
          return [wide, narrow];""",
    )
    assert found == ["3", "1"]
