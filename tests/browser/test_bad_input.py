"""Charts of what nobody means to log: numbers that are none, clocks that go back, a connection that comes and goes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Error, Locator, WebSocketRoute, expect

from benchmarks.load.planting import START_S, Writer, plant, send
from tests.browser.conftest import Seat
from tests.browser.test_launching import chart, drawn
from tests.up_process import wait_until
from tests.whole.runs import Yard

NUM = 60
STEPS = np.arange(1, NUM + 1, dtype=np.int64)
TIMES = START_S + STEPS / 10
EVEN = STEPS % 2 == 0
VALUES = {
    "bad/all_nan": np.full(NUM, np.nan),
    "bad/all_infinite": np.where(EVEN, np.inf, -np.inf),
    "bad/some_of_each": np.select([STEPS == 10, STEPS == 20, STEPS == 30], [np.nan, np.inf, -np.inf], 1.0),
    "bad/constant": np.full(NUM, 5.0),
    "bad/huge": np.where(EVEN, 1.7e308, -1.7e308),
    "bad/tiny": np.full(NUM, 5e-324) * (1 + EVEN),
    "bad/negative": -STEPS.astype(float),
    "bad/zero_and_less": np.where(EVEN, 0.0, -0.0),
}  # fmt: skip
# Half of the points, then an hour back, then two hours on.
CLOCKS = {
    "clock/back": np.concatenate([TIMES[:30], TIMES[30:45] - 3600, TIMES[45:] + 7200]),
    "clock/still": np.full(NUM, START_S + 5),
    "clock/long_before": TIMES - START_S + 1,
}
AXES = ("step", "relative", "time")


@pytest.fixture(scope="module")
def bad(office: Yard) -> str:
    """The id of a run with such series."""
    writer = Writer()

    def frames() -> Iterator[bytes]:
        yield writer.begin()
        yield from writer.points(list(VALUES), STEPS, TIMES, np.column_stack(list(VALUES.values())))
        for name, times in CLOCKS.items():
            yield from writer.points([name], STEPS, times, STEPS.astype(float)[:, None])
        yield from writer.points(["bad/single"], STEPS[:1], TIMES[:1], np.ones((1, 1)))
        yield from writer.points(["bad/far_steps"], STEPS + 2**53, TIMES, np.ones((NUM, 1)))
        yield writer.end()

    return plant(office.http, "bad-numbers", frames(), [writer])


@pytest.mark.parametrize(
    "drawing",
    [
        "",
        "?logx=1&logy=1&outliers=1&smooth=gaussian:0.5",
        *(
            pytest.param(further, marks=pytest.mark.extended)
            for further in (
                "?x=relative&smooth=ema:0.9",
                "?x=relative&logx=1&logy=1&smooth=mean:0.5",
                "?x=time&outliers=1&smooth=gaussian:0.9",
            )
        ),
    ],
)
def test_every_series_is_drawn_without_a_problem(drawing: str, seat: Seat, bad: str) -> None:
    page = seat.go(f"/runs/{bad}/{drawing}")
    for name in (*VALUES, *CLOCKS, "bad/single", "bad/far_steps"):
        card = chart(page, name)
        scroll_to(card)
        wait_until_built(card)
        card.get_by_role("application").press("ArrowLeft")
    assert seat.watch.unexpected() == []


def test_a_series_that_is_no_number_at_all_is_marked_and_says_so(seat: Seat, bad: str) -> None:
    page = seat.go(f"/runs/{bad}/")
    for name, words in (("bad/all_nan", "NaN"), ("bad/all_infinite", "∞")):
        card = chart(page, name)
        wait_until_built(card)
        expect(card).to_contain_text(words)
        assert card.evaluate("(card) => card.chart.built.bad.length") == NUM


def test_numbers_beside_those_that_are_none_are_read(seat: Seat, bad: str) -> None:
    page = seat.go(f"/runs/{bad}/")
    card = chart(page, "bad/some_of_each")
    wait_until_built(card)
    marks = card.evaluate("(card) => card.chart.built.bad.map(({x, value}) => [x, String(value)])")
    assert sorted(marks) == [[10, "NaN"], [20, "Infinity"], [30, "-Infinity"]]
    expect(card.locator(".chart-value")).to_contain_text("1")
    low, high = card.evaluate("(card) => [card.chart.plot.frame.y.min, card.chart.plot.frame.y.max]")
    assert -10 < low < 1 < high < 10


def test_a_clock_that_goes_back_leaves_every_point(seat: Seat, bad: str) -> None:
    for axis in AXES:
        page = seat.go(f"/runs/{bad}/?x={axis}")
        for name in CLOCKS:
            card = chart(page, name)
            scroll_to(card)
            wait_until_built(card)
            assert len(drawn(page, name)) == NUM
            xs = card.evaluate("(card) => [...card.chart.built.x]")
            assert xs == sorted(xs), f"{name} by {axis}"
            tops = card.evaluate("(card) => [...card.chart.built.lines.values()].map(({min, max}) => [min, max])")
            assert tops == [[1, NUM]]


def test_a_connection_that_flaps_loses_and_repeats_nothing(seat: Seat, office: Yard) -> None:
    writer = Writer()
    run_id = plant(office.http, "flapping", [writer.begin()], [writer], is_over=False)
    sockets: list[WebSocketRoute] = []

    def through(socket: WebSocketRoute) -> None:
        socket.connect_to_server()
        sockets.append(socket)

    seat.page.route_web_socket(re.compile("/ws/"), through)
    seat.watch.expect("net::ERR_INTERNET_DISCONNECTED", "series data did not come", "the list of series did not come")
    page = seat.go(f"/runs/{run_id}/")
    lamp = page.get_by_role("status", name="How this page gets its news")
    expect(lamp).to_have_text("live")
    sent = 0
    for turn in range(6):
        steps = np.arange(sent + 1, sent + 11, dtype=np.int64)
        send(office.http, run_id, writer.points(["train/loss"], steps, START_S + steps, (1.0 / steps)[:, None]))
        sent += steps.size
        if turn == 0:
            wait_until_built(chart(page, "train/loss"))
        if turn % 2:
            page.context.set_offline(True)
        sockets[-1].close(code=3000)
        expect(lamp).to_contain_text("reconnecting")
        page.context.set_offline(False)
        expect(lamp).to_have_text("live")
    wait_until(lambda: len(drawn(page, "train/loss")) >= sent, "all that was sent is drawn", patience_s=30)
    assert [int(point["step"]) for point in drawn(page, "train/loss")] == list(range(1, sent + 1))
    assert len(sockets) >= 7


def scroll_to(card: Locator) -> None:
    """Bring the card into view. A page that is being built may take it out for a moment and put it in elsewhere."""

    def is_in_view() -> bool:
        try:
            card.scroll_into_view_if_needed()
        except Error as error:
            assert "not attached" in error.message, error
            return False
        return True

    wait_until(is_in_view, "the card is in view")


def wait_until_built(card: Locator) -> None:
    """Return when the chart has been drawn from its points."""
    expect(card).to_be_visible()
    is_built = "(card) => Boolean(card.chart?.built) && card.chart.points().length > 0"
    wait_until(lambda: card.count() == 1 and card.evaluate(is_built), "the chart is drawn")
