"""A socket that heals, and how several share a page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, WebSocketRoute

from tests.dashboard.js.conftest import serve
from tests.up_process import wait_until

OPEN = """async (path) => {
    const {Stream} = await import("http://modules.invalid/live/stream.js");
    window.heard = [];
    window.states = [];
    window.stream = new Stream(path, (state) => states.at(-1) !== state && states.push(state));
    for (const type of ["points", "again", "refetch", "gone"]) stream.on(type, (message) => heard.push(message));
    stream.open();
}"""
HIDE = """hidden => {
    Object.defineProperty(document, "hidden", {configurable: true, get: () => hidden});
    document.dispatchEvent(new Event("visibilitychange"));
}"""
SHARE = """async ({live, most}) => {
    window.live = new Set(live);
    const {streamsFor} = await import("http://modules.invalid/live/streams.js");
    window.streamOf = streamsFor((run) => window.live.has(run), {most, askMs: 1000});
    window.asked = [];
    window.stops = {};
    window.listen = (run) => (window.stops[run] = streamOf(run).on("refetch", () => asked.push(run)));
}"""


class Server:
    """The other end of the page's sockets; it says nothing by itself."""

    def __init__(self, page: Page) -> None:
        self.urls: list[str] = []
        self.sockets: list[WebSocketRoute] = []
        self.closed: list[str] = []
        page.route_web_socket("**/ws/**", self._on_socket)

    def _on_socket(self, socket: WebSocketRoute) -> None:
        self.urls.append(socket.url.removeprefix("ws://modules.invalid"))
        self.sockets.append(socket)
        socket.on_close(lambda _code, _reason: self.closed.append(socket.url))

    def say(self, message: dict[str, Any]) -> None:
        self.sockets[-1].send(json.dumps(message))


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    page.route("http://modules.invalid/**", serve)
    page.goto("http://modules.invalid/")
    yield page
    page.close()


@pytest.fixture
def server(page: Page) -> Server:
    return Server(page)


def wait(page: Page, condition: str) -> None:
    page.wait_for_function(condition, timeout=20_000)


def is_state(page: Page, state: str) -> None:
    wait(page, f"stream.state === '{state}'")


def test_what_comes_is_told_to_who_listens(page: Page, server: Server) -> None:
    page.evaluate(OPEN, "/ws/runs/a/")
    is_state(page, "live")
    server.say({"type": "points", "from": 3, "cursor": 5, "series": []})
    server.say({"type": "points", "from": 3, "cursor": 5, "series": []})
    server.say({"type": "points", "from": 5, "cursor": 6, "series": []})
    wait(page, "heard.length >= 2")
    assert [one["cursor"] for one in page.evaluate("heard")] == [5, 6], "the same once"
    assert page.evaluate("[stream.continues(2), stream.continues(3), stream.continues(9)]") == [False, True, True]


def test_a_hole_is_asked_for_from_where_it_begins(page: Page, server: Server) -> None:
    page.evaluate(OPEN, "/ws/runs/a/")
    is_state(page, "live")
    server.say({"type": "points", "from": 3, "cursor": 5, "series": []})
    server.say({"type": "points", "from": 7, "cursor": 8, "series": []})
    wait_until(lambda: page.title() is not None and len(server.urls) == 2, "it connects again")
    assert server.urls == ["/ws/runs/a/", "/ws/runs/a/?since=5"]
    wait(page, "heard.some((one) => one.type === 'again')")


def test_a_connection_that_breaks_or_falls_silent_is_made_again(page: Page, server: Server) -> None:
    page.clock.install(time=0)
    page.clock.pause_at(1_000)  # else it goes on by itself, and a slow machine makes a silence of its own
    page.evaluate(OPEN, "/ws/runs/a/")
    is_state(page, "live")
    server.sockets[-1].close(code=1011)
    is_state(page, "reconnecting")
    page.clock.run_for(1000)
    is_state(page, "live")
    page.clock.run_for(16_100)
    is_state(page, "reconnecting")
    page.clock.run_for(1000)
    is_state(page, "live")
    assert len(server.urls) == 3


@pytest.mark.parametrize(("code", "word"), [(4404, "gone"), (4403, None)])
def test_a_refusal_is_final(code: int, word: str | None, page: Page, server: Server) -> None:
    page.clock.install()
    page.evaluate(OPEN, "/ws/runs/a/")
    is_state(page, "live")
    server.sockets[-1].close(code=code)
    is_state(page, "off")
    page.clock.run_for(60_000)
    assert page.evaluate("stream.state") == "off"
    assert len(server.urls) == 1
    assert [one["type"] for one in page.evaluate("heard")] == ([word] if word else [])


def test_nobody_who_looks_means_no_socket(page: Page, server: Server) -> None:
    page.clock.install()
    page.evaluate(OPEN, "/ws/runs/a/")
    is_state(page, "live")
    page.evaluate(HIDE, True)
    page.clock.run_for(29_000)
    assert page.evaluate("stream.state") in ("live", "reconnecting"), "half a minute is nothing"
    page.clock.run_for(2_000)
    is_state(page, "paused")
    num_sockets = len(server.urls)
    page.clock.run_for(60_000)
    assert (page.evaluate("stream.state"), len(server.urls)) == ("paused", num_sockets)
    page.evaluate(HIDE, False)
    is_state(page, "live")


def test_a_closed_stream_stays_closed(page: Page, server: Server) -> None:
    page.clock.install()
    page.evaluate(OPEN, "/ws/runs/a/")
    is_state(page, "live")
    page.evaluate("stream.close()")
    page.evaluate(HIDE, True)
    page.evaluate(HIDE, False)
    page.clock.run_for(60_000)
    assert (page.evaluate("stream.state"), len(server.urls)) == ("closed", 1)


def test_live_runs_have_sockets_while_somebody_listens(page: Page, server: Server) -> None:
    page.evaluate(SHARE, {"live": ["a", "b"], "most": 12})
    page.evaluate("['a', 'b', 'ended'].forEach((run) => { listen(run); listen(run); })")
    wait_until(lambda: page.title() is not None and len(server.urls) == 2, "two sockets")
    assert sorted(server.urls) == ["/ws/runs/a/", "/ws/runs/b/"]
    assert page.evaluate("streamOf('ended').continues(5)") is True
    page.evaluate("stops.a()")
    assert server.closed == [], "another one listens"
    page.evaluate("streamOf('a').on('points', () => {})()")
    assert page.evaluate("streamOf('a').num") == 1


def test_beyond_so_many_sockets_a_live_run_is_asked_for_now_and_then(page: Page, server: Server) -> None:
    page.clock.install()
    page.evaluate(SHARE, {"live": ["a", "b", "c"], "most": 2})
    page.evaluate("['a', 'b', 'c'].forEach(listen)")
    wait_until(lambda: page.title() is not None and len(server.urls) == 2, "two sockets")
    page.clock.run_for(2_100)
    assert page.evaluate("asked") == ["c", "c"]
    page.evaluate("live.delete('c')")
    page.clock.run_for(5_000)
    assert page.evaluate("asked") == ["c", "c", "c"], "a last time after it ended"
    page.evaluate("stops.a(); listen('d'); live.add('d'); stops.d(); listen('d')")
    wait_until(lambda: page.title() is not None and len(server.urls) == 3, "a place that was given back is taken")
    assert server.urls[-1] == "/ws/runs/d/"


def test_a_run_that_is_started_again_is_asked_for(page: Page, server: Server) -> None:
    page.clock.install()
    page.evaluate(SHARE, {"live": [], "most": 2})
    page.evaluate("void listen('ended')")
    page.clock.run_for(3_000)
    assert page.evaluate("asked") == []
    page.evaluate("live.add('ended')")
    page.clock.run_for(1_100)
    assert page.evaluate("asked") == ["ended"]
    assert server.urls == []


def test_the_run_of_the_page_shares_its_socket(page: Page, server: Server) -> None:
    page.evaluate(SHARE, {"live": ["a"], "most": 2})
    page.evaluate(
        "import('http://modules.invalid/live/live.js').then(({own}) => { own.path = '/ws/runs/a/'; window.own = own; })"
    )
    assert page.evaluate("streamOf('a') === own") is True
    assert server.urls == []
