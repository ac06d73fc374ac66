"""`python -m benchmarks [NAME ...]`: run `bench_NAME.py` of either folder of cases, all where no name is given.

Each benchmark runs in a process of its own and writes its rows as JSON; this process prints them as one table and
keeps them in RESULTS.md. A benchmark that fails is named, and the others go on.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import results, table
from benchmarks.table import Row

FOLDER = Path(__file__).parent
CASES = ("training_cases", "server_cases")
PREFIX = "bench_"


def names() -> list[str]:
    return sorted(modules())


def modules() -> dict[str, str]:
    """Return the dotted name of every benchmark's module by the name of the benchmark."""
    return {
        path.stem.removeprefix(PREFIX): f"benchmarks.{folder}.{path.stem}"
        for folder in CASES
        for path in (FOLDER / folder).glob(f"{PREFIX}*.py")
    }


def main(wanted: list[str]) -> int:
    if wanted[:1] == ["--rows"]:
        return write_rows(*wanted[1:])
    unknown = sorted(set(wanted) - set(names()))
    if unknown:
        print(f"There is no benchmark named {', '.join(unknown)}. There are: {', '.join(names()) or 'none yet'}.")
        return 2
    everything: list[Row] = []
    kept: dict[str, results.Result] = {}
    failed, busy = [], []
    for name in wanted or names():
        before, started_at = results.load_now(), time.monotonic()
        print(f"{name} ...", file=sys.stderr, flush=True)
        if not before.is_quiet:
            busy.append(name)
        rows = rows_of(name)
        seconds = time.monotonic() - started_at
        print(f"{name}: {seconds:.0f} s", file=sys.stderr, flush=True)
        if rows is None:
            failed.append(name)
            continue
        everything += rows
        kept[name] = results.result(name, rows, before=before, seconds=seconds)
        if table.scale() == 1:  # figures of less than the full work are looked at and not kept
            results.write(kept)
    show(everything)
    if busy:
        print(f"The machine was busy with something else before {', '.join(busy)}: compare ratios rather than times.")
    if failed:
        print(f"Failed: {', '.join(failed)}")
    return 1 if failed else 0


def rows_of(name: str) -> list[Row] | None:
    """Run one benchmark in a process of its own; None where it fails, which it says on stderr."""
    with tempfile.TemporaryDirectory(prefix="trainyard-bench-") as folder:
        path = Path(folder) / "rows.json"
        words = [sys.executable, "-m", "benchmarks", "--rows", name, str(path)]
        done = subprocess.run(words, cwd=FOLDER.parent, stdin=subprocess.DEVNULL, check=False)
        return table.loads(path.read_text()) if done.returncode == 0 and path.exists() else None


def write_rows(name: str, path: str) -> int:
    """In the benchmark's own process: measure, and leave the rows in a file. What it prints is for people."""
    module = importlib.import_module(modules()[name])
    Path(path).write_text(table.dumps(module.rows()))
    return 0


def show(rows: list[Row]) -> None:
    """Print the rows as a table that fits a terminal."""
    from rich.console import Console
    from rich.table import Table

    shown = Table(title=f"{results.machine()}; {results.versions()}", title_justify="left", pad_edge=False)
    for title in table.HEAD:
        shown.add_column(title, overflow="fold", justify="right" if title in ("ours", "theirs", "goal") else "left")
    for row in rows:
        shown.add_row(*(text.replace("**", "") for text in table.cells(row)))
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 200
    Console(width=width).print(shown)
    goals = [row for row in rows if row.goal is not None]
    print(f"{sum(row.is_met is True for row in goals)} of {len(goals)} goals met.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
