"""What people wait for on the pages of a run, in Chromium on this machine, through a whole Trainyard.

Server, browser and what sends the data share the machine's cores. Times of a page count from the start of its
navigation; the server keeps nothing ready for it. Beside each figure stands a limit from the same run: the same data
fetched and drawn by uPlot alone in a page that is loaded already, or the bare request.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import numpy as np

from benchmarks import goals
from benchmarks.chromium import Window, cpu_percent, visit, window
from benchmarks.load import planting
from benchmarks.load.planting import START_S, Writer
from benchmarks.stack import Stack, running
from benchmarks.table import Row, middle, scaled, spread_of

NUM_SERIES, NUM_POINTS = 200, 100_000
NUM_RUNS = 50
NUM_LINES = 1_000_000
VISITS = 5
LIVE_HZ, LIVE_S = 10, 10.0
NEEDLE = "the boiler is cold"


def rows() -> list[Row]:
    with running(nodes=0) as stack, window(stack.home, stack.url) as seen:
        api = httpx.Client(
            base_url=f"{stack.url}/api/v1", headers={"Authorization": f"Bearer {stack.token}"}, timeout=60
        )
        with api:
            return [*wide(stack, api, seen), *overlay(stack, api, seen), *log(stack, api, seen)]


def wide(stack: Stack, api: httpx.Client, seen: Window) -> list[Row]:
    """A run with many long series, at first sight and while it grows."""
    names = [f"train/metric_{number}" for number in range(NUM_SERIES)]
    run = planting.plant_points(api, "wide", scaled(NUM_POINTS, 2_000), names)
    url = f"{stack.url}/runs/{run}/"
    visits = []
    for _ in range(VISITS):
        forget_view(api, seen)
        visits.append(visit(seen, url, "usable", "metric_137"))
    forget_view(api, seen)
    bare = [seen.ask("bareCharts", {"run": run, "names": names[:9]}) for _ in range(VISITS)]
    memory = seen.heap_bytes() / 1e6, seen.renderer_bytes() / 1e6
    title = f"run page with {NUM_SERIES} series of {scaled(NUM_POINTS, 2_000):,} points"
    usable = [one["answered"] for one in visits]
    return [
        Row(f"{title}: charts drawn and the filter answered", middle(usable), "ms", middle(bare),
            "nine charts by uPlot alone", goal=goals.PAGE_USABLE, spread=spread_of(usable),
            others={"charts drawn": middle(one["drawn"] for one in visits)}),
        Row(f"{title}: memory of its process", memory[1], "MB", None, "", goal=goals.PAGE_MEMORY,
            others={"heap and arrays": memory[0]}),
        live(stack, api, seen, names),
    ]  # fmt: skip


def live(stack: Stack, api: httpx.Client, seen: Window, names: list[str]) -> Row:
    """The same page while each series gets a point ten times a second."""
    writer = Writer()
    steps = np.arange(1, scaled(NUM_POINTS, 2_000) + 1, dtype=np.int64)
    values = np.random.default_rng(3).normal(1, 0.1, (steps.size, len(names)))
    frames = writer.points(names, steps, START_S + steps / 10, values)
    run = planting.plant(api, "growing", [writer.begin(), *frames], [writer], is_over=False)
    seen.page.goto(f"{stack.url}/runs/{run}/")
    seen.ask("usable")
    seen.page.wait_for_timeout(2_000)
    idle = cpu_percent(seen, 4)
    with growing(stack, run, writer, names, int(steps[-1])):
        seen.page.wait_for_timeout(2_000)
        busy = cpu_percent(seen, LIVE_S)
    return Row(
        f"the same page growing by {len(names)} points at {LIVE_HZ} Hz: processor time of the browser", busy,
        "% of a core", None, "", goal=goals.PAGE_LIVE, others={"the same page at rest": idle},
    )  # fmt: skip


@contextmanager
def growing(stack: Stack, run: str, writer: Writer, names: list[str], last: int) -> Iterator[None]:
    """Let the run grow by a row of all series ten times a second."""
    over = threading.Event()

    def grow() -> None:
        headers = {"Authorization": f"Bearer {stack.token}"}
        with httpx.Client(base_url=f"{stack.url}/api/v1", headers=headers, timeout=30) as api:
            began = time.monotonic()
            for number in range(1, 100_000):
                if over.wait(max(0.0, began + number / LIVE_HZ - time.monotonic())):
                    return
                step = np.array([last + number], dtype=np.int64)
                row = np.random.default_rng(number).normal(1, 0.1, (1, len(names)))
                planting.send(api, run, writer.points(names, step, START_S + step / 10, row))

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def overlay(stack: Stack, api: httpx.Client, seen: Window) -> list[Row]:
    """Many runs in the same charts."""
    count, num_points = scaled(NUM_RUNS, 4), scaled(NUM_POINTS, 2_000)
    runs = [
        planting.plant_points(api, f"overlaid-{number}", num_points, ["train/loss"], seed=number)
        for number in range(count)
    ]
    url = f"{stack.url}/runs/compare/?" + "&".join(f"run={run}" for run in runs)
    visits = [visit(seen, url, "usable")["drawn"] for _ in range(VISITS)]
    bare = seen.ask("bareOverlay", {"runs": runs, "name": "train/loss"})
    rates = {name: rate(seen, gesture) for name, gesture in (("pan", pan), ("zoom", zoom))}
    title = f"{count} runs of {num_points:,} points in one chart"
    return [
        Row(f"{title}: drawn", middle(visits), "ms", bare["ms"], "fetched and drawn by uPlot alone",
            goal=goals.OVERLAY_DRAWN, spread=spread_of(visits)),
        *(Row(f"{title}: frames a second while one {name}s", value, "fps", bare["fps"], "uPlot alone",
              is_less_better=False, goal=goals.OVERLAY_FPS) for name, value in rates.items()),
    ]  # fmt: skip


def forget_view(api: httpx.Client, seen: Window) -> None:
    """Let charts be as for somebody new: what was typed into the filter is kept a second after."""
    seen.page.wait_for_timeout(1_500)
    for project in api.get("/projects").json()["items"]:
        api.put(f"/projects/{project['id']}/workspace", json={"state": {}}).raise_for_status()


def rate(seen: Window, gesture: Any) -> float:
    """Return the frames a second while the chart is moved by hand for two seconds."""
    box = seen.page.locator(".chart-card .chart-plot").first.bounding_box()
    assert box is not None
    seen.ask("countFrames")
    gesture(seen, box)
    times = seen.ask("takeFrames")
    return float(1_000 * (len(times) - 1) / (times[-1] - times[0]))


def pan(seen: Window, box: dict[str, float]) -> None:
    """Zoom in, then drag with Shift from side to side."""
    mouse, page = seen.page.mouse, seen.page
    middle_x, middle_y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    mouse.move(middle_x, middle_y)
    page.keyboard.down("Shift")
    mouse.down()
    until, turn = time.monotonic() + 2, 0
    while time.monotonic() < until:
        turn += 1
        mouse.move(middle_x + box["width"] / 4 * np.sin(turn / 8), middle_y)
    mouse.up()
    page.keyboard.up("Shift")


def zoom(seen: Window, box: dict[str, float]) -> None:
    """Turn the wheel with Ctrl, in and out."""
    mouse, page = seen.page.mouse, seen.page
    mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.keyboard.down("Control")
    until, turn = time.monotonic() + 2, 0
    while time.monotonic() < until:
        turn += 1
        mouse.wheel(0, 120 if turn // 10 % 2 else -120)
    page.keyboard.up("Control")


def log(stack: Stack, api: httpx.Client, seen: Window) -> list[Row]:
    """A long log: searched, and scrolled through."""
    count = scaled(NUM_LINES, 20_000)
    run = planting.plant_lines(api, "talkative", count, planted={count * 9 // 10: f"ERROR {NEEDLE}"})
    url = f"{stack.url}/runs/{run}/logs/"
    hits, requests = [], []
    for _ in range(VISITS):
        visit(seen, url, "lines")
        hits.append(float(seen.ask("search", NEEDLE)))
        requests.append(float(seen.ask("bareSearch", {"run": run, "words": NEEDLE})))
    visit(seen, url, "lines")
    blank = blank_ms(seen)
    return [
        Row(f"search in {count:,} lines: a word that comes once is on the page", middle(hits), "ms", middle(requests),
            "the request alone", goal=goals.PAGE_SEARCH, spread=spread_of(hits)),
        Row(f"scrolling through {count:,} lines: longest time in which a line in view has no text", blank, "ms", None,
            "", goal=goals.PAGE_BLANK),
    ]  # fmt: skip


def blank_ms(seen: Window) -> float:
    """Scroll by wheel, by page and by jumps, and return how long lines in view had no text at most."""
    lines = seen.page.locator("[data-lines]")
    box = lines.bounding_box()
    assert box is not None
    seen.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    lines.focus()
    seen.ask("watchBlanks")
    seen.page.keyboard.press("Home")
    for _ in range(60):
        seen.page.mouse.wheel(0, 1_000)
        seen.page.wait_for_timeout(16)
    for key in ("PageDown",) * 20 + ("End", "PageUp", "PageUp", "Home"):
        seen.page.keyboard.press(key)
        seen.page.wait_for_timeout(50)
    seen.page.wait_for_timeout(300)
    return float(seen.ask("longestBlank"))
