"""Chromium looking at a Trainyard: a signed-in page, and what its processes cost."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import psutil

from tests.machine import find_chromium

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession, Page

ROOT = Path(__file__).resolve().parents[1]
VIEW = {"width": 1440, "height": 900}
DRAWING = ("renderer", "GPU")  # the processes that a page costs: the script in one, the canvases in the other
PROBES = (Path(__file__).parent / "probes.js").read_text()
PEERS = {  # no page of ours has the one, nor the other as a script of its own
    "uplot": ROOT / "node_modules" / "uplot" / "dist" / "uPlot.esm.js",
    "columns": ROOT / "static" / "js" / "charts" / "data" / "columns.js",
}


class Process(TypedDict):
    """A process of Chromium as its debugging protocol describes it."""

    type: str
    id: int
    cpuTime: float


@dataclass
class Window:
    page: Page
    cdp: CDPSession  # of the whole browser

    def cpu_s(self) -> float:
        """Return the processor time that the page's processes have used."""
        return sum(float(one["cpuTime"]) for one in self._processes())

    def heap_bytes(self) -> float:
        """Return what the page's script holds after a collection, its arrays' buffers included."""
        session = self.page.context.new_cdp_session(self.page)
        session.send("HeapProfiler.collectGarbage")
        used = session.send("Runtime.getHeapUsage")
        session.detach()
        return float(used["usedSize"]) + float(used.get("backingStorageSize", 0))

    def renderer_bytes(self) -> float:
        """Return the largest renderer's private memory: the page with its code, its heap and its documents."""
        pids = [int(one["id"]) for one in self._processes() if one["type"] == "renderer"]
        return float(max(psutil.Process(pid).memory_full_info().uss for pid in pids))

    def ask(self, probe: str, value: Any = None) -> Any:
        """Run one of the functions of probes.js in the page and return what it returns."""
        return self.page.evaluate(f"([probe, value]) => {PROBES}[probe](value)", [probe, value])

    def _processes(self) -> list[Process]:
        found: list[Process] = self.cdp.send("SystemInfo.getProcessInfo")["processInfo"]
        return [one for one in found if one["type"] in DRAWING]


@contextmanager
def window(home: Path, url: str) -> Iterator[Window]:
    """A page of a Chromium of its own, signed in as the one who started Trainyard."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(with_windows=True), args=["--no-sandbox"])
        try:
            page = browser.new_context(viewport=VIEW).new_page()  # type: ignore[arg-type]
            page.set_default_timeout(60_000)
            page.route("**/static/peers/*.js", lambda route: route.fulfill(path=PEERS[Path(route.request.url).stem]))
            page.goto(sign_in_link(home))
            page.wait_for_url(f"{url}/")
            yield Window(page, browser.new_browser_cdp_session())
        finally:
            browser.close()


def sign_in_link(home: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "dashboard.sign_in"], cwd=ROOT, env={**os.environ, "TRAINYARD_HOME": str(home)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def visit(seen: Window, url: str, probe: str, value: Any = None) -> Any:
    """Open the page anew and return what the probe says of it."""
    seen.page.goto("about:blank")
    seen.page.goto(url, wait_until="commit")
    return seen.ask(probe, value)


def cpu_percent(window: Window, seconds: float) -> float:
    """Return the share of one core that the page's processes use over that time, in percent."""
    before, began = window.cpu_s(), time.monotonic()
    window.page.wait_for_timeout(1_000 * seconds)
    return 100 * (window.cpu_s() - before) / (time.monotonic() - began)
