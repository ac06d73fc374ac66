"""The points of many runs as the page holds them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.dashboard.js.charts.data.server import Server, line, message

Make = Callable[..., Server]

OPEN = """async (runs) => {
    const {Store} = await import("http://modules.invalid/charts/data/store.js");
    const {Windows} = await import("http://modules.invalid/charts/data/windows.js");
    window.heard = {names: 0, data: [], gone: [], stopped: []};
    window.streams = new Map();
    window.origin = 0;
    const streamOf = (id) => {
        const listeners = new Map();
        streams.set(id, listeners);
        const on = (type, then) => { listeners.set(type, then); return () => heard.stopped.push(`${id} ${type}`); };
        return {on, continues: (cursor) => cursor >= window.origin};
    };
    window.tell = (id, message) => streams.get(id).get(message.type)(message);
    window.store = new Store(runs.map((id) => ({id, start: 0})), {
        onNames: () => { heard.names += 1; }, onData: (name) => heard.data.push(name),
        onGone: (id) => heard.gone.push(id), streamOf,
    });
    window.windows = new Windows(store, (name) => heard.data.push(`window ${name}`));
    window.lines = (name, entry = store.loaded.get(name)) => Object.fromEntries(
        [...entry?.lines ?? []].map(([key, {parts}]) =>
            [key, [...parts.values()].map(({step, value}) => [[...step], [...value]])]));
}"""


@pytest.fixture
def make(page: Page) -> Any:
    """``make({run: {name: data}})``: a server with these runs, and a store of them in the page."""
    servers: list[Server] = []

    def make(runs: dict[str, Any], chosen: list[str] | None = None, **options: Any) -> Server:
        server = Server(runs, **options)
        server.attach(page)
        servers.append(server)
        page.evaluate(OPEN, chosen or list(runs))
        return server

    yield make
    page.evaluate("() => { store.close(); windows.close(); }")
    page.unroute("http://modules.invalid/api/**")


def wait(page: Page, condition: str, argument: Any = None) -> None:
    page.wait_for_function(condition, arg=argument, timeout=15_000)


def loaded(page: Page, name: str) -> dict[str, Any]:
    wait(page, "(name) => store.loaded.has(name)", name)
    found: dict[str, Any] = page.evaluate("(name) => lines(name)", name)
    return found


def tell(page: Page, run: str, *messages: str) -> None:
    page.evaluate("([run, all]) => all.forEach((one) => tell(run, one))", [run, [json.loads(one) for one in messages]])


def test_of_very_many_series_the_first_are_listed_and_others_are_found(make: Make, page: Page) -> None:
    make({"a": {f"layer{number}/weight": line(1) for number in range(6_200)}})
    page.evaluate("() => store.list()")
    assert page.evaluate("() => [store.names.size, store.listing.isPartial, store.listing.isCut('')]") == [
        5000, True, True,
    ]  # fmt: skip
    page.evaluate("() => store.find('layer619')")
    assert page.evaluate("() => [store.names.size, store.listing.isCut('layer619')]") == [5010, False]
    page.evaluate("() => store.find(['layer6000/weight', 'nothing'])")
    assert page.evaluate("() => [store.names.size, store.names.has('layer6000/weight')]") == [5011, True]
    page.evaluate("() => store.find('weight')")
    assert page.evaluate("() => store.listing.isCut('weight')")  # of these there are more than come at once


def test_a_name_whose_lines_are_not_known_is_listed_and_has_none(make: Make, page: Page) -> None:
    make({"a": {}})
    page.evaluate("() => store.addNames([{run: 'a', name: 'x', labels: null}, {run: 'a', name: 'x', labels: null}])")
    assert page.evaluate("() => [store.names.has('x'), store.numLines('a', 'x')]") == [True, 0]
    page.evaluate("() => store.addNames([{run: 'a', name: 'x', labels: {rank: '1'}}])")
    assert page.evaluate("() => store.numLines('a', 'x')") == 1


def test_a_run_of_fewer_series_is_listed_whole(make: Make, page: Page) -> None:
    make({"a": {f"layer{number}/weight": line(1) for number in range(5_000)}})
    page.evaluate("() => store.list()")
    assert page.evaluate("() => [store.names.size, store.listing.isPartial, store.listing.isCut('')]") == [
        5000, False, False,
    ]  # fmt: skip


def test_names_that_are_wanted_together_come_in_one_answer(make: Make, page: Page) -> None:
    server = make({"a": {"loss": line(3), "rate": line(2)}, "b": {"loss": line(2, 5)}})
    page.evaluate("() => { store.want('loss'); store.want('rate'); store.want('loss'); }")
    assert loaded(page, "loss") == {"a []": [[[0, 1, 2], [0, 1, 2]]], "b []": [[[0, 1], [0, 5]]]}
    assert list(loaded(page, "rate")) == ["a []"]
    assert [(one["run"], one["name"], one["points"]) for one in server.asked] == [
        (["a", "b"], ["loss", "rate"], ["1500"])
    ]
    assert page.evaluate("() => [...store.loaded.get('rate').cursors]") == [["a", 10], ["b", 10]]
    assert page.evaluate("() => heard.data") == ["loss", "rate"]


def test_the_list_knows_each_line_of_each_run(make: Make, page: Page) -> None:
    make({"a": {"loss": line(3)}, "b": {"loss": line(1), "rate": line(1)}})
    page.evaluate("() => store.list()")
    names = page.evaluate("() => [...store.names].map(([name, lines]) => [name, [...lines]])")
    known = {name: {key: value["run"] for key, value in lines} for name, lines in names}
    assert known == {"loss": {"a []": "a", "b []": "b"}, "rate": {"b []": "b"}}
    wait(page, "() => heard.names === 1")
    assert page.evaluate("() => [store.numLines('a', 'loss'), store.numLines('a', 'rate')]") == [1, 0]


def test_what_a_stream_brings_is_added_once(make: Make, page: Page) -> None:
    make({"a": {"loss": line(2)}})
    page.evaluate("() => store.want('loss')")
    loaded(page, "loss")
    tell(page, "a", message(10, 11, "loss", 2, 7), message(8, 10, "loss", 1, 9), message(11, 12, "loss", 3, 8))
    assert loaded(page, "loss") == {"a []": [[[0, 1, 2, 3], [0, 1, 7, 8]]]}
    assert page.evaluate("() => heard.data.length") == 3
    tell(page, "a", message(12, 13, "new", 1, 1))
    wait(page, "() => store.names.has('new') && heard.names > 0")
    assert page.evaluate("() => store.loaded.has('new')") is False, "nobody wanted it"


def test_a_message_that_overlaps_what_is_there_has_everything_asked_again(make: Make, page: Page) -> None:
    server = make({"a": {"loss": line(2)}})
    page.evaluate("() => store.want('loss')")
    loaded(page, "loss")
    server.runs["a"]["loss"] = line(4)
    server.cursor = 12
    tell(page, "a", message(9, 12, "loss", 3, 3))
    wait(page, "() => store.loaded.get('loss').cursors.get('a') === 12")
    assert loaded(page, "loss") == {"a []": [[[0, 1, 2, 3], [0, 1, 2, 3]]]}
    assert len(server.asked) == 2


def test_a_message_that_comes_while_the_answer_is_on_its_way_is_behind_it(make: Make, page: Page) -> None:
    server = make({"a": {"loss": line(2)}})
    late = [message(9, 10, "loss", 1, 1), message(10, 11, "loss", 2, 5)]
    whole = server.data

    def slowly(route: Any, asked: Any) -> None:
        page.evaluate(
            "(all) => setTimeout(() => all.forEach((one) => tell('a', one)))", [json.loads(one) for one in late]
        )
        whole(route, asked)

    server.data = slowly  # type: ignore[method-assign]
    page.evaluate("() => store.want('loss')")
    wait(page, "() => store.loaded.get('loss')?.lines.get('a []')?.parts.get(1).step.length === 3")
    assert loaded(page, "loss") == {"a []": [[[0, 1, 2], [0, 1, 5]]]}


def test_an_answer_that_no_message_continues_is_asked_for_again(make: Make, page: Page) -> None:
    server = make({"a": {"loss": line(2)}})
    page.evaluate("() => { window.origin = 20; store.want('loss'); }")
    wait(page, "() => heard.data.length >= 2")
    server.cursor = 20
    wait(page, "() => store.loaded.get('loss').cursors.get('a') === 20")
    num_asked = len(server.asked)
    tell(page, "a", message(20, 21, "loss", 2, 2))
    assert len(loaded(page, "loss")["a []"][0][0]) == 3
    assert len(server.asked) == num_asked


def test_a_stream_that_lost_something_reloads_its_run_alone(make: Make, page: Page) -> None:
    server = make({"a": {"loss": line(2)}, "b": {"loss": line(2)}})
    page.evaluate("() => store.want('loss')")
    loaded(page, "loss")
    server.runs["b"]["loss"] = line(3)
    page.evaluate("() => tell('b', {type: 'refetch', from: 5, cursor: 10})")
    wait(page, "() => store.loaded.get('loss').lines.get('b []').parts.get(1).step.length === 3")
    assert server.asked[-1]["run"] == ["b"]
    assert list(loaded(page, "loss")) == ["a []", "b []"], "each keeps its place"


def test_chosen_runs_are_loaded_and_others_dropped(make: Make, page: Page) -> None:
    server = make({run: {"loss": line(2), run: line(1)} for run in "abc"}, chosen=["a", "b"])
    page.evaluate("() => { store.want('loss'); return store.list(); }")
    loaded(page, "loss")
    page.evaluate("() => store.setRuns([{id: 'c', start: 5}, {id: 'a', start: 0}])")
    wait(page, "() => store.loaded.get('loss').lines.has('c []') && store.names.has('c')")
    assert sorted(loaded(page, "loss")) == ["a []", "c []"]
    assert page.evaluate("() => [...store.runs.keys()]") == ["c", "a"]
    assert page.evaluate("() => [...store.names.keys()].sort()") == ["a", "c", "loss"]
    assert server.asked[-1]["run"] == ["c"], "what is there is not asked for again"
    assert set(page.evaluate("() => heard.stopped")) >= {"b points", "b refetch", "b again"}


def test_what_was_forgotten_comes_again_when_it_is_wanted(make: Make, page: Page) -> None:
    server = make({"a": {"loss": line(2)}})
    page.evaluate("() => store.want('loss')")
    loaded(page, "loss")
    page.evaluate("() => store.forget('loss')")
    assert page.evaluate("() => store.loaded.size") == 0
    tell(page, "a", message(10, 11, "loss", 2, 2))
    page.evaluate("() => store.want('loss')")
    loaded(page, "loss")
    assert len(server.asked) == 2


def test_a_run_that_is_deleted_keeps_its_lines_and_is_told(make: Make, page: Page) -> None:
    server = make({"a": {"loss": line(2), "rate": line(2)}, "b": {"loss": line(2)}})
    page.evaluate("() => store.want('loss')")
    loaded(page, "loss")
    del server.runs["b"]
    page.evaluate("() => store.want('rate')")
    assert list(loaded(page, "rate")) == ["a []"]
    assert page.evaluate("() => heard.gone") == ["b"]
    assert list(loaded(page, "loss")) == ["a []", "b []"]
    page.evaluate("() => { store.forget('rate'); store.want('rate'); }")
    loaded(page, "rate")
    assert server.asked[-1]["run"] == ["a"], "nobody asks for it again"


def test_a_run_alone_that_is_deleted_is_told(make: Make, page: Page) -> None:
    make({"a": {"loss": line(2)}}, chosen=["gone"])
    page.evaluate("() => { store.want('loss'); return store.list(); }")
    wait(page, "() => heard.gone.length")
    assert page.evaluate("() => heard.gone") == ["gone"]


def test_the_list_comes_though_one_of_the_runs_is_gone(make: Make, page: Page) -> None:
    make({"a": {"loss": line(2)}}, chosen=["a", "gone"])
    page.evaluate("() => store.list()")
    assert page.evaluate("() => [[...store.names.keys()], heard.gone]") == [["loss"], ["gone"]]


def test_too_many_points_come_in_smaller_answers(make: Make, page: Page) -> None:
    names = {f"n{number}": line(2) for number in range(8)}
    server = make({"a": names}, refuse=lambda asked: 422 if len(asked["name"]) > 2 else None)
    page.evaluate("(names) => names.forEach((name) => store.want(name))", list(names))
    wait(page, "() => store.loaded.size === 8")
    assert len(server.asked) == 1 + 2 + 4


def test_an_answer_that_did_not_come_is_asked_for_again(make: Make, page: Page) -> None:
    failures = iter([500])
    with page.expect_console_message(lambda told: "series data did not come" in told.text):
        make({"a": {"loss": line(2)}}, refuse=lambda asked: next(failures, None))
        page.evaluate("() => store.want('loss')")
    page.evaluate("() => tell('a', {type: 'again'})")  # the stream is there again: no need to wait out the pause
    assert loaded(page, "loss") == {"a []": [[[0, 1], [0, 1]]]}


def test_a_line_that_grew_long_is_asked_for_again_in_buckets(make: Make, page: Page) -> None:
    server = make({"a": {"loss": line(4499)}})
    page.evaluate("() => store.want('loss')")
    loaded(page, "loss")
    server.kind, server.cursor = "buckets", 12
    tell(page, "a", message(10, 11, "loss", 4499, 1), message(11, 12, "loss", 4500, 1))
    wait(page, "() => store.loaded.get('loss').lines.get('a []').parts.get(1).min !== null")


def test_a_window_has_its_own_points_in_the_place_of_buckets(make: Make, page: Page) -> None:
    server = make({"a": {"loss": line(100)}}, kind="buckets")
    page.evaluate("() => store.want('loss')")
    loaded(page, "loss")
    page.evaluate("() => windows.set('step', [40, 50])")
    wait(page, "() => heard.data.includes('window loss')")
    (steps, _), *_ = page.evaluate("() => lines('loss', windows.entry('loss'))")["a []"]
    assert steps == [9, 19, 29, *range(35, 56), 59, 69, 79, 89, 99]
    assert (server.asked[-1]["from"], server.asked[-1]["to"]) == (["35"], ["55"]), "and as much again to pan to"
    page.evaluate("() => windows.set('step', null)")
    assert page.evaluate("() => windows.entry('loss') === store.loaded.get('loss')") is True
    assert page.evaluate("() => windows.range('step')") is None


@pytest.mark.parametrize(("axis", "window"), [("relative", [10, 20]), ("time", [40, 50])])
def test_a_window_of_time_lies_where_each_run_has_it(axis: str, window: list[int], make: Make, page: Page) -> None:
    server = make({"a": {"loss": line(100)}}, kind="buckets")
    page.evaluate("(axis) => { windows.axisFor = () => axis; store.want('loss'); }", axis)
    loaded(page, "loss")
    page.evaluate("([axis, window]) => windows.set(axis, window)", [axis, window])
    wait(page, "() => heard.data.includes('window loss')")
    (steps, _), *_ = page.evaluate("() => lines('loss', windows.entry('loss'))")["a []"]
    assert steps == [9, 19, 29, *range(35, 56), 59, 69, 79, 89, 99]
    assert server.asked[-1]["x"] == [axis]


def test_what_is_exact_already_is_not_asked_for_in_a_window(make: Make, page: Page) -> None:
    server = make({"a": {"loss": line(100), "system/cpu": line(100)}})
    page.evaluate("() => { store.want('loss'); store.want('system/cpu'); }")
    loaded(page, "loss")
    page.evaluate("() => windows.set('step', [40, 50])")
    wait(page, "() => windows.timers.size === 0")
    assert (page.evaluate("() => windows.pending.size"), len(server.asked)) == (0, 1)


def test_who_goes_on_zooming_gets_the_wider_window_first_and_never_a_coarser_one_behind(make: Make, page: Page) -> None:
    server = make({"a": {"loss": line(200)}}, kind="buckets")
    page.evaluate("() => store.want('loss')")
    loaded(page, "loss")
    whole = server.data
    ranges = iter([[80, 100], None])

    def while_zooming(route: Any, asked: Any) -> None:
        if further := next(ranges, None):
            page.evaluate("(range) => windows.set('step', range)", further)
        whole(route, asked)

    server.data = while_zooming  # type: ignore[method-assign]
    page.evaluate("() => windows.set('step', [50, 150])")
    wait(page, "() => heard.data.includes('window loss')")
    wait(page, "() => windows.held.get('loss').from === 70")
    (steps, _), *_ = page.evaluate("() => lines('loss', windows.entry('loss'))")["a []"]
    assert steps[:9] == [9, 19, 29, 39, 49, 59, 69, 70, 71]
    page.evaluate("""() => windows.take({runs: ['a'], names: ['loss'], window: {axis: 'step', from: 0, to: 200}},
        {series: []})""")
    assert page.evaluate("() => windows.held.get('loss').from") == 70


def test_what_comes_into_view_while_zoomed_gets_its_window(make: Make, page: Page) -> None:
    server = make({"a": {"loss": line(100), "system/cpu": line(100)}}, kind="buckets")
    page.evaluate("() => windows.set('step', [40, 50])")
    wait(page, "() => windows.timers.size === 0")
    page.evaluate("() => { store.want('loss'); store.want('system/cpu'); }")
    loaded(page, "loss")
    page.evaluate("() => { windows.entry('loss'); windows.entry('system/cpu'); windows.entry('nothing'); }")
    wait(page, "() => heard.data.includes('window loss')")
    assert server.asked[-1]["name"] == ["loss"], "a machine's health has no steps"
