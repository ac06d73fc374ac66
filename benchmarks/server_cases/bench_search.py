"""What looking through a log of a million lines costs the server: the first hit, any part of it, what there is.

Server time is that of the whole request in-process, by Django's test client. The word that is sought occurs once, in
the last line of one rank: everything before it is read. Beside it ``grep`` counts the same word in the same lines as
one file, from memory.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from benchmarks import goals
from benchmarks.metrics_stack import metrics_stack
from benchmarks.stack import percentile
from benchmarks.table import Row, middle, scaled, spread_of

if TYPE_CHECKING:
    from django.test import Client

    from runs.models import Run

NUM_LINES, NUM_RANKS, BATCH = 1_000_000, 8, 8_000
ROUNDS, WINDOWS = 15, 60
SEED = 5
WORD = "needle"
START_S, TENTH_S = 1.7e9, 0.1
Timed = list[tuple[float, str]]


def rows() -> list[Row]:
    num_lines = scaled(NUM_LINES, 4 * BATCH)
    with metrics_stack() as place, tempfile.TemporaryDirectory(prefix="trainyard-bench-") as folder:
        run, flat = place.make_run("log"), Path(folder) / "log.txt"
        fill(run, num_lines, flat)
        size, client = flat.stat().st_size, place.client()
        grep_ms = middle(took(lambda: grep(flat)) for _ in range(5))
        url = f"/api/v1/runs/{run.pk}/logs"
        first_hit(client, url, {"q": WORD})  # the first one imports and opens
        first = sorted(first_hit(client, url, {"q": WORD}) for _ in range(ROUNDS))
        regex = sorted(first_hit(client, url, {"q": f"{WORD}|explosion", "regex": True}) for _ in range(ROUNDS))
        parts = [took(partial(window, client, url, start)) for start in places(num_lines)]
        known = [took(lambda: ask(client, f"{url}/overview", {})) for _ in range(ROUNDS)]
    what = f"{num_lines:,} lines of {NUM_RANKS} ranks, {size / 1e6:,.0f} MB"
    return [
        Row(f"first hit of a word at the end of {what}", middle(first), "ms", grep_ms, "grep -c in one file",
            goal=goals.SEARCH, spread=spread_of(first), others={"an expression of two words": middle(regex)}),
        Row(f"200 lines anywhere among {num_lines:,}, p95", percentile(parts, 0.95), "ms", grep_ms,
            "grep -c in one file",
            goal=goals.WINDOW, spread=spread_of(parts), others={"median": middle(parts), "overview": middle(known)}),
    ]  # fmt: skip


def fill(run: Run, num_lines: int, flat: Path) -> None:
    """Write lines in batches, as ingest would have, and the same ones into a file; compact them."""
    from django.conf import settings
    from django.db import transaction

    from benchmarks.load.compaction import compact_run
    from runs.records.logs.writing import StreamLines, write_lines
    from runs.records.metrics.models import Telemetry

    known, _ = Telemetry.objects.get_or_create(run_id=run.pk)
    with flat.open("w") as file:
        for batch in batches(num_lines):
            known.cursor += 1
            with transaction.atomic(using=settings.METRICS_DATABASE):
                lines = [StreamLines(rank, "stdout", timed) for rank, timed in enumerate(batch)]
                write_lines(run.pk, attempt=1, cursor=known.cursor, lines=lines)
                known.save()
            file.writelines(f"{text}\n" for timed in batch for _, text in timed)
    compact_run(run.pk, known.cursor, is_quiet=True)


def batches(num_lines: int) -> Iterator[list[Timed]]:
    """Yield the lines of each rank, a thousand steps at a time; one of the last ones has the word."""
    values = random.Random(SEED)
    steps = num_lines // NUM_RANKS
    for first in range(0, steps, BATCH // NUM_RANKS):
        part = range(first, min(steps, first + BATCH // NUM_RANKS))
        batch = [[(START_S + TENTH_S * step, line(values, step)) for step in part] for _ in range(NUM_RANKS)]
        if part.stop == steps:
            at, _ = batch[5][-1]
            batch[5][-1] = (at, f"2026-01-01 10:00:00 - train - ERROR - a {WORD} in it")
        yield batch


def line(values: random.Random, step: int) -> str:
    loss, rate, norm = values.random(), values.random() / 1000, values.random()
    return (
        f"step {step:7d} loss {loss:.6f} lr {rate:.3e} tokens/s {values.randint(10_000, 99_999)} grad_norm {norm:.4f}"
    )


Query = dict[str, str | int | bool]


class Item(TypedDict):
    index: int


class Page(TypedDict):
    """Lines of a log, of which only the place is looked at."""

    items: list[Item]
    next: str


def first_hit(client: Client, url: str, query: Query) -> float:
    """Return the milliseconds until the hit is there, in as many requests as that takes."""
    began, after = time.perf_counter(), ""
    for _ in range(100):
        page = ask(client, f"{url}/search", {**query, "after": after})
        if page["items"]:
            return 1_000 * (time.perf_counter() - began)
        after = page["next"]
    raise AssertionError("the word is not found")


def window(client: Client, url: str, start: int) -> None:
    page = ask(client, f"{url}/window", {"start": start, "limit": 200})
    assert len(page["items"]) == 200 and page["items"][0]["index"] == start


def ask(client: Client, url: str, query: Query) -> Page:
    answer = client.get(url, query)
    assert answer.status_code == 200, answer.content[:500]
    found: Page = answer.json()
    return found


def places(num_lines: int) -> list[int]:
    values = random.Random(SEED)
    return [values.randrange(num_lines - 200) for _ in range(scaled(WINDOWS, 20))]


def grep(flat: Path) -> None:
    words = [shutil.which("grep") or "grep", "-c", "-i", WORD, str(flat)]
    assert subprocess.run(words, capture_output=True, check=True).stdout == b"1\n"


def took(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return 1_000 * (time.perf_counter() - began)
