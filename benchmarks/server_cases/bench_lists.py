"""Lists over 100,000 runs, and a tick of control over 10,000 pending ones, on SQLite and on PostgreSQL.

A figure is the processor time of one request through the whole site in-process, that of PostgreSQL's own processes
included. Beside it stands the same request over 100 runs, from the same run of the benchmark and the same database.
Each family of lists is one row, that of its dearest request; the row of all says how many are within the goal.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import goals
from benchmarks.table import Row, scaled
from dashboard.postgres_programs import find_postgres_folder

ROOT = Path(__file__).resolve().parents[2]
SMALL, LARGE, PENDING = 100, 100_000, 10_000
FAMILIES: dict[str, str | tuple[str, ...]] = {
    "REST, runs": "API runs",
    "page of runs": "page runs",
    "home and palette": ("page home", "palette"),
    "filters by columns": "API columns, filter",
    "orders by columns": "API columns, sort",
    "groups": "groups",
    "REST, other lists": "API ",
    "pages of other lists": "page ",
    "admin": "admin",
}
Costs = dict[str, dict[str, float]]


def rows() -> list[Row]:
    found = [*measured("SQLite", {})]
    if find_postgres_folder() is None:
        note = "PostgreSQL's programs are not on this machine"
        return [*found, Row("lists on PostgreSQL", None, "ms", None, "", goal=goals.LISTS, note=note)]
    from tests.servers import short_folder, start_postgresql

    with short_folder("ty-bench-") as folder:
        server = start_postgresql(folder)
        assert server is not None and server.process is not None
        try:
            found += measured("PostgreSQL", {"DATABASE_URL": server.url, "BENCH_SERVER": str(server.process.pid)})
        finally:
            server.stop()
    return found


def measured(database: str, environment: dict[str, str]) -> list[Row]:
    small, large, pending = SMALL, scaled(LARGE, 1_000), scaled(PENDING, 100)
    with tempfile.TemporaryDirectory(prefix="ty-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        home = Path(folder) / "home"
        (home / "static").mkdir(parents=True)
        words = [sys.executable, "-m", "benchmarks.load.list_requests", str(small), str(large), str(pending)]
        done = subprocess.run(
            words, cwd=ROOT, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, check=True,
            env={**os.environ, "TRAINYARD_HOME": str(home), **environment},
        )  # fmt: skip
    answer = json.loads(done.stdout.splitlines()[-1])
    return [*families(database, answer[str(small)], answer[str(large)], large), tick(database, answer, pending)]


def families(database: str, few: dict[str, float], many: dict[str, float], size: int) -> list[Row]:
    left, found = dict(many), []
    for title, starts in FAMILIES.items():
        asked = {what: cost for what, cost in left.items() if what.startswith(starts)}
        left = {what: cost for what, cost in left.items() if what not in asked}
        dearest = max(asked, key=lambda what: asked[what])
        within = sum(goals.LISTS.is_met(cost, None) for cost in asked.values())
        found.append(
            Row(f"{database}, {size:,} runs, {title}: the dearest of {len(asked)} requests", asked[dearest], "ms",
                few[dearest], f"over {SMALL} runs", goal=goals.LISTS, spread=(min(asked.values()), asked[dearest]),
                note=f"{dearest}; {within} of {len(asked)} are within the goal")
        )  # fmt: skip
    return found


def tick(database: str, answer: Costs, pending: int) -> Row:
    costs = answer["tick"]
    return Row(
        f"{database}: a tick of control over {pending:,} pending runs", costs["later"], "s", costs["empty"],
        "a tick without pending runs", goal=goals.TICK, others={"the first, which writes every reason": costs["first"]},
    )  # fmt: skip
