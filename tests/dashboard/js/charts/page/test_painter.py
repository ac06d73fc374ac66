"""When charts are drawn."""

from __future__ import annotations

from itertools import pairwise

from tests.dashboard.js.conftest import Ask

SETUP = """
  const drawn = [];
  let cost = 0;
  const work = (end) => { while (performance.now() < end); };
  const painter = new Painter((name) => { drawn.push([name, performance.now()]); work(performance.now() + cost); });
  const frame = () => new Promise((go) => requestAnimationFrame(go));
  const frames = async (num) => { for (let at = 0; at < num; at += 1) await frame(); };
  const rest = (ms) => new Promise((go) => setTimeout(go, ms));
  const names = () => drawn.map(([name]) => name);
"""


def test_what_came_together_is_drawn_once_in_one_frame(ask_page: Ask) -> None:
    found = ask_page(
        "charts/page/painter.js",
        f"""async ({{Painter}}) => {{ {SETUP}
          painter.want('a'); painter.want('b'); painter.want('a'); painter.now(['b', 'c']);
          await frames(3);
          painter.close(); return names(); }}""",
    )
    assert sorted(found) == ["a", "b", "c"]


def test_new_data_is_drawn_at_most_ten_times_a_second(ask_page: Ask) -> None:
    found = ask_page(
        "charts/page/painter.js",
        f"""async ({{Painter}}) => {{ {SETUP}
          const end = performance.now() + 1000;
          while (performance.now() < end) {{ painter.want('a'); await rest(5); }}
          painter.close();
          return drawn.map(([, at]) => at); }}""",
    )
    gaps = [after - before for before, after in pairwise(found)]
    assert len(found) >= 2 and min(gaps) >= 95


def test_the_more_drawing_costs_the_less_often_it_is_done(ask_page: Ask) -> None:
    found = ask_page(
        "charts/page/painter.js",
        f"""async ({{Painter}}) => {{ {SETUP} cost = 60;
          const end = performance.now() + 1000;
          while (performance.now() < end) {{ painter.want('a'); await rest(5); }}
          painter.close();
          return drawn.map(([, at]) => at); }}""",
    )
    gaps = [after - before for before, after in pairwise(found)]
    assert len(found) >= 2 and min(gaps) >= 60 + 3 * 60 - 5


def test_what_a_person_changed_does_not_wait_for_the_pace_of_data(ask_page: Ask) -> None:
    found = ask_page(
        "charts/page/painter.js",
        f"""async ({{Painter}}) => {{ {SETUP} cost = 60;
          painter.want('a'); await frames(2);
          painter.now(['b']); await frames(3);
          painter.close(); return names(); }}""",
    )
    assert found == ["a", "b"]


def test_many_charts_leave_the_page_free_between_frames(ask_page: Ask) -> None:
    most = ask_page(
        "charts/page/painter.js",
        f"""async ({{Painter}}) => {{ {SETUP} cost = 5;
          painter.now(Array.from({{ length: 20 }}, (_, at) => `chart ${{at}}`));
          const counts = [];
          while (drawn.length < 20 && counts.length < 200) {{
            const before = drawn.length;
            await frame();
            counts.push(drawn.length - before);
          }}
          painter.close(); return Math.max(...counts); }}""",
    )
    assert most <= 4


def test_a_page_that_nobody_sees_draws_nothing_until_somebody_does(ask_page: Ask) -> None:
    found = ask_page(
        "charts/page/painter.js",
        f"""async ({{Painter}}) => {{ {SETUP}
          const hide = (hidden) => {{
            Object.defineProperty(document, "hidden", {{ configurable: true, get: () => hidden }});
            document.dispatchEvent(new Event("visibilitychange"));
          }};
          hide(true);
          painter.want('a'); painter.now(['b']); await rest(150);
          const unseen = names();
          hide(false); await frames(3);
          painter.close(); delete document.hidden;
          return [unseen, names()]; }}""",
    )
    assert found == [[], ["a", "b"]]


def test_a_chart_in_which_nothing_moves_is_drawn_four_times_a_second_and_at_once_for_a_person(ask_page: Ask) -> None:
    live, by_hand = ask_page(
        "charts/page/painter.js",
        f"""async ({{Painter}}) => {{ {SETUP}
          const mixed = new Painter((name) => drawn.push([name, performance.now()]), (name) => name === 'calm');
          const end = performance.now() + 1300;
          while (performance.now() < end) {{ mixed.want('calm'); mixed.want('lively'); await rest(5); }}
          const live = drawn.splice(0);
          mixed.now(['calm']);
          await frames(2);
          mixed.close(); return [live, names()]; }}""",
    )
    times = {name: [at for one, at in live if one == name] for name in ("calm", "lively")}
    assert min(after - before for before, after in pairwise(times["calm"])) >= 245
    assert len(times["calm"]) >= 2, "it is not forgotten"
    assert len(times["lively"]) > len(times["calm"])
    assert "calm" in by_hand
