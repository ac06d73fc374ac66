"""RESULTS.md: the newest rows of every benchmark, with the machine, versions, date and load they were measured under.

The file is both what people read and what the next run updates: a run of one benchmark replaces the lines of that one.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks import compare, table
from benchmarks.table import Row

PATH = Path(__file__).parent / "RESULTS.md"
INTRODUCTION = """# Benchmarks

Written by `make bench`, nothing by hand. Each row is a figure of Trainyard beside a peer or a limit that was measured
in the same run on the same machine; "times better" is the ratio of the two, and "spread" the smallest and the largest
of what the figure is the middle of. How it is measured, and what is fair about it:
[docs/decisions/benchmarks.md](../docs/decisions/benchmarks.md).
"""
WHEN = "## When and where"
WHEN_HEAD = ("benchmark", "date", "busy before", "load before", "load after", "took", "machine", "versions")
LOOK_S = 2.0
QUIET_PERCENT = 10.0
PACKAGES = ("django", "numpy", "msgpack", "redis", "pcodec", "torch")


@dataclass
class Result:
    """What one benchmark left: its lines of the table, and when and where they were measured. Lines of Markdown."""

    rows: list[str] = field(default_factory=list)
    when: str = ""


@dataclass(frozen=True)
class Load:
    """What the machine does for others: the share of all cores in use, and the load average over a minute (which
    remembers the benchmark before this one)."""

    busy_percent: float
    average: float

    @property
    def is_quiet(self) -> bool:
        return self.busy_percent <= QUIET_PERCENT


def load_now() -> Load:
    """Look at the machine for two seconds, while nothing of ours runs."""
    return Load(psutil.cpu_percent(interval=LOOK_S), os.getloadavg()[0])


def machine() -> str:
    """The processor, its cores, the memory and the system in one line."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.release()}"


def versions() -> str:
    """Of Python, of what we run on, and of the peers that are installed."""
    found = [f"Python {platform.python_version()}", *(_version(name) for name in PACKAGES)]
    return ", ".join([*found, *(f"{name} {version}" for name, version in sorted(compare.versions().items()))])


def result(name: str, rows: list[Row], *, before: Load, seconds: float) -> Result:
    """Turn the rows of the benchmark ``name``, which has just ended, into what the file keeps."""
    date = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    loads = f"{before.busy_percent:.0f} %", f"{before.average:.1f}", f"{os.getloadavg()[0]:.1f}"
    when = table.line((name, date, *loads, f"{seconds:.0f} s", machine(), versions()))
    return Result([table.line((name, *table.cells(row))) for row in rows], when)


def write(results: dict[str, Result], path: Path = PATH) -> None:
    """Replace what the file says of these benchmarks, and keep the others."""
    known = sorted({**read(path), **results}.items())
    rows = [line for _, one in known for line in one.rows]
    lines = [INTRODUCTION, *_head(("benchmark", *table.HEAD)), *rows, "", WHEN, ""]
    lines += [*_head(WHEN_HEAD), *(one.when for _, one in known if one.when)]
    path.write_text("\n".join(lines) + "\n")


def read(path: Path = PATH) -> dict[str, Result]:
    """Return what the file holds, by the name of the benchmark. A file that is not there holds nothing."""
    found: dict[str, Result] = {}
    rows, _, when = (path.read_text() if path.exists() else "").partition(WHEN)
    for line in _body(rows):
        found.setdefault(_name(line), Result()).rows.append(line)
    for line in _body(when):
        found.setdefault(_name(line), Result()).when = line
    return found


def _head(titles: Iterable[str]) -> list[str]:
    titles = list(titles)
    return [table.line(titles), table.line(["---"] * len(titles))]


def _body(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| ")][2:]


def _name(line: str) -> str:
    return line.split("|")[1].strip()


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine()


def _version(name: str) -> str:
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return f"no {name}"
