"""`python -m benchmarks.load.lags PLAN`: many sockets that note how old the points are which they are sent.

As ``listen``, whose plan it takes; but a socket that is refused or does not open in time is counted and no failure, and
what is kept is not each message: it says one JSON line of numbers for each line that it is given, and begins anew.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from pathlib import Path

from benchmarks.load.listen import AT_ONCE, Listener, Plan

STAMP = re.compile(rb'"time":\[([0-9.]+)')
HEAD = 600  # bytes in which the first time of a message stands
OPENING_S = 45.0  # the benchmark waits for 60


class LagListener(Listener):
    lags: list[float] = []  # of all sockets since the last line  # noqa: RUF012
    num_closed = 0

    def take(self, kind: int, payload: bytes, now: float) -> None:
        if stamp := STAMP.search(payload, 0, HEAD):
            LagListener.lags.append(now - float(stamp[1]))
        super().take(kind, payload, now)
        self.received.clear()

    def connection_lost(self, reason: Exception | None) -> None:
        if self.is_open.done():
            LagListener.num_closed += 1
        else:
            self.is_open.set_exception(ConnectionError())


async def open_all(plan: Plan) -> int:
    """Open all sockets; return how many were open within the limit."""
    loop, gate = asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE)
    deadline = loop.time() + OPENING_S

    async def one(number: int) -> bool:
        async with gate:
            try:
                async with asyncio.timeout_at(deadline):
                    _, listener = await loop.create_connection(
                        lambda: LagListener(number, plan, []), plan["host"], plan["port"]
                    )
                    await listener.is_open
            except (OSError, TimeoutError):
                return False
        return True

    return sum(await asyncio.gather(*(one(number) for number in range(len(plan["sockets"])))))


async def main(path: Path) -> None:
    plan: Plan = json.loads(path.read_text())
    began = time.monotonic()
    num_open = await open_all(plan)
    print(f"ready {num_open} {time.monotonic() - began:.1f}", flush=True)
    loop = asyncio.get_running_loop()
    while (await loop.run_in_executor(None, sys.stdin.readline)).strip() == "look":
        lags, LagListener.lags = LagListener.lags, []
        found = {"lags": [round(lag, 3) for lag in lags], "closed": LagListener.num_closed}
        print(f"found {json.dumps(found)}", flush=True)
    os._exit(0)


if __name__ == "__main__":
    import uvloop

    uvloop.run(main(Path(sys.argv[1])))
