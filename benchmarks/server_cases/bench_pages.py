"""What people wait for in the table of runs, in Chromium on this machine, through a whole Trainyard with many runs.

Server and browser share the machine's cores. Times of a page count from the start of its navigation. Beside each figure
stands a limit from the same run: the bare request, or the frames of a page with nothing on it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks import goals
from benchmarks.chromium import Window, visit, window
from benchmarks.stack import running
from benchmarks.table import Goal, Row, middle, scaled, spread_of

NUM_RUNS = 100_000
VISITS = 5
SCROLL_S = 3.0
WORDS = "summary.train/loss.min < 0.5 and train-00"
BY = "train.learning_rate"
FILL = (
    "from benchmarks.load.list_requests import open_site; open_site(); from benchmarks.load.crowd import fill; fill({})"
)


def rows() -> list[Row]:
    count = scaled(NUM_RUNS, 2_000)
    with running(nodes=0) as stack, window(stack.home, stack.url) as seen:
        environment = {**os.environ, "TRAINYARD_HOME": str(stack.home)}
        root = Path(__file__).resolve().parents[2]
        subprocess.run([sys.executable, "-c", FILL.format(count)], cwd=root, env=environment, check=True)
        table, grouped = f"{stack.url}/runs/", f"{stack.url}/runs/?group={BY}"
        still = frames(seen, is_scrolled=False)
        for url in (table, grouped):  # columns are made at the first request, and a sentence says so
            visit(seen, url, "rows")
            seen.page.wait_for_timeout(5_000)
        title = f"table of {count:,} runs"
        return [
            shown(seen, table, f"{title}: first rows", goals.TABLE_ROWS),
            shown(seen, grouped, f"{title}: grouped by {BY}", goals.TABLE_GROUPED),
            typing(seen, table, title),
            Row(f"{title}: frames a second while one scrolls", scrolling(seen, table), "fps", still, "a page at rest",
                is_less_better=False, goal=goals.TABLE_FPS),
        ]  # fmt: skip


def shown(seen: Window, url: str, title: str, goal: Goal) -> Row:
    times = [float(visit(seen, url, "rows")) for _ in range(VISITS)]
    bare = middle(float(seen.ask("bareRequest", url)) for _ in range(VISITS))
    return Row(title, middle(times), "ms", bare, "the request alone", goal=goal, spread=spread_of(times))


def typing(seen: Window, url: str, title: str) -> Row:
    """The time from a letter until the next frame, letter by letter."""
    visit(seen, url, "rows")
    times = [float(seen.ask("typed", WORDS[:end])) for end in range(1, len(WORDS) + 1)]
    return Row(
        f"{title}: a letter typed into the filter is drawn, the slowest of {len(times)}", max(times), "ms",
        middle(times), "the middle of them", goal=goals.TABLE_TYPING, spread=spread_of(times),
    )  # fmt: skip


def scrolling(seen: Window, url: str) -> float:
    visit(seen, url, "rows")
    seen.page.mouse.move(700, 600)
    return frames(seen, is_scrolled=True)


def frames(seen: Window, *, is_scrolled: bool) -> float:
    """Return the frames a second, while the wheel turns or not."""
    seen.ask("countFrames")
    until = time.monotonic() + SCROLL_S
    while time.monotonic() < until:
        if is_scrolled:
            seen.page.mouse.wheel(0, 120)
        seen.page.wait_for_timeout(16)
    times = seen.ask("takeFrames")
    return float(1_000 * (len(times) - 1) / (times[-1] - times[0]))
