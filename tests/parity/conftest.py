"""`make parity`: every way to train against one process alone, and a table of what was measured at the end.

`make test` has the small tests beside the code and leaves this folder out: eight processes at a time are slow.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.workers.training.conftest import corpus_cache, own_cache  # noqa: F401  # fixtures, for the ranks here too
from tests.workers.training.parity import Measured, measured

told = SimpleNamespace(num=0)  # how many lines of `measured` were printed
HEAD = ("strategy", "world", "loss", "gradient", "limit", "note")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder: a hook gets those of all folders."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.slow)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Say what a test has measured as soon as it is over, whether it passed or not."""
    if report.when == "call":
        for one in measured[told.num :]:
            print("\n  " + "  ".join(filter(None, cells(one))), end=" ", flush=True)
        told.num = len(measured)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not measured:
        return
    terminalreporter.section("largest relative distances from one process alone")
    lines = [HEAD, *map(cells, sorted(measured, key=lambda one: (bool(one.note), one.strategy, one.world)))]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    for line in lines:
        terminalreporter.write_line("  ".join(map(str.ljust, line, widths)).rstrip())


def cells(one: Measured) -> tuple[str, ...]:
    numbers = ("" if number is None else f"{number:.1e}" for number in (one.loss, one.gradient, one.limit))
    return one.strategy, str(one.world), *numbers, one.note
