"""`python -m benchmarks.load.visitors PLAN`: people and programs that use a server while something is done to it.

Programs list runs and make tokens with our own client, each at its own pace. Browsers open a page and all its scripts
and styles, and try nothing twice. Sockets come again as pages do (`static/js/live/stream.js`). Says "ready" once all
sockets are open, takes a line when it is over, and writes what happened to PLAN's ``answers``.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import ssl
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidHandshake, WebSocketException
from websockets.typing import Origin

from trainyard.rest.client import Client

ASSET = re.compile(r'(?:src|href)="(/static/[^"]+)"')
AT_ONCE = 20  # sockets that are opened at the same time in the beginning
RETRY_S, LONGEST_RETRY_S = 0.4, 15.0


@dataclass
class Plan:
    url: str
    authority: str  # a file
    token: str
    cookies: dict[str, str]
    runs: list[str]
    num_programs: int
    num_writers: int  # of the programs
    num_browsers: int
    num_sockets: int
    every_s: float  # between two calls of one program, and between two pages of a browser
    answers: str  # a file

    @classmethod
    def read(cls, path: Path) -> Plan:
        return cls(**json.loads(path.read_text()))


@dataclass
class Answers:
    """Unix time, seconds and, where it failed, why: of calls and of pages. Of sockets: when one closed, and how long it
    was until it was open again; how often that was tried in vain; how long each had no message at most."""

    calls: list[tuple[float, float, str]] = field(default_factory=list)
    pages: list[tuple[float, float, str]] = field(default_factory=list)
    away: list[tuple[float, float, int]] = field(default_factory=list)
    silence_s: list[float] = field(default_factory=list)
    num_messages: int = 0


def main(plan: Plan) -> None:
    answers, over = Answers(), threading.Event()
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    watching = Watching(plan, answers)
    asyncio.run_coroutine_threadsafe(watching.open_all(), loop).result(timeout=180)
    threads = [threading.Thread(target=ask, args=(plan, number, answers, over)) for number in range(plan.num_programs)]
    threads += [threading.Thread(target=browse, args=(plan, n, answers, over)) for n in range(plan.num_browsers)]
    for one in threads:
        one.start()
    print("ready", flush=True)
    sys.stdin.readline()
    over.set()
    for one in threads:
        one.join()
    watching.is_over = True
    answers.silence_s = watching.silence_s
    Path(plan.answers).write_text(json.dumps(asdict(answers)))
    print("done", flush=True)


def ask(plan: Plan, number: int, answers: Answers, over: threading.Event) -> None:
    """List runs, or make tokens: one call in each period, later ones where a call took longer."""
    with Client(plan.url, plan.token) as client:
        over.wait(plan.every_s * number / plan.num_programs)
        while not over.is_set():
            began, at, why = time.monotonic(), time.time(), ""
            try:
                if number < plan.num_writers:
                    client.create_token(f"{number} at {at:.3f}")
                else:
                    list(client.runs(limit=50))
            except Exception as error:  # whatever it is, it counts as a call that failed
                why = f"{type(error).__name__}: {error}"
            answers.calls.append((at, time.monotonic() - began, why))
            over.wait(max(0.0, plan.every_s - (time.monotonic() - began)))


def browse(plan: Plan, number: int, answers: Answers, over: threading.Event) -> None:
    """Open a page and what it names, in a browser without a cache."""
    paths = ("/", "/runs/", f"/runs/{plan.runs[number % len(plan.runs)]}/", "/launch/")
    context = ssl.create_default_context(cafile=plan.authority)
    with httpx.Client(base_url=plan.url, verify=context, cookies=plan.cookies, timeout=60) as browser:
        while not over.is_set():
            for path in paths:
                began, at, why = time.monotonic(), time.time(), ""
                try:
                    page = browser.get(path)
                    asked = [page, *(browser.get(asset) for asset in sorted(set(ASSET.findall(page.text))))]
                    why = "; ".join(f"{one.request.url.path}: {one.status_code}" for one in asked if not one.is_success)
                except httpx.HTTPError as error:
                    why = f"{path}: {type(error).__name__}: {error}"
                answers.pages.append((at, time.monotonic() - began, why))
                if over.wait(max(0.0, plan.every_s - (time.monotonic() - began))):
                    return


class Watching:
    """The sockets of pages of runs, in one event loop."""

    def __init__(self, plan: Plan, answers: Answers) -> None:
        self._plan, self._answers, self.is_over = plan, answers, False
        self._context = ssl.create_default_context(cafile=plan.authority)
        self.silence_s = [0.0] * plan.num_sockets
        self._open = [asyncio.Event() for _ in range(plan.num_sockets)]

    async def open_all(self) -> None:
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(number: int) -> None:
            async with gate:
                self._tasks.append(asyncio.create_task(self._watch(number)))
                await self._open[number].wait()

        self._tasks: list[asyncio.Task[None]] = []
        await asyncio.gather(*(one(number) for number in range(self._plan.num_sockets)))

    async def _watch(self, number: int) -> None:
        plan = self._plan
        run = plan.runs[number % len(plan.runs)]
        address = f"{plan.url.replace('http', 'ws', 1)}/ws/runs/{run}/"
        closed_at, tries, last = 0.0, 0, time.monotonic()
        while not self.is_over:
            try:
                async with connect(
                    address, ssl=self._context, origin=Origin(plan.url), max_size=None, open_timeout=60,
                    additional_headers={"Authorization": f"Bearer {plan.token}"},
                ) as socket:  # fmt: skip
                    async for _ in socket:  # from its first message on it counts as open
                        if closed_at:
                            self._answers.away.append((closed_at, time.time() - closed_at, tries))
                        closed_at, tries = 0.0, 0
                        self._open[number].set()
                        now = time.monotonic()
                        self.silence_s[number] = max(self.silence_s[number], now - last)
                        last = now
                        self._answers.num_messages += 1
            except (OSError, TimeoutError, InvalidHandshake, WebSocketException):
                pass
            closed_at, tries = closed_at or time.time(), tries + 1
            await asyncio.sleep(min(LONGEST_RETRY_S, RETRY_S * 2 ** min(tries, 6)) * random.uniform(0.5, 1))


if __name__ == "__main__":
    main(Plan.read(Path(sys.argv[1])))
