"""The table of the experiments, at the end of `make chaos`."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence

import pytest

from tests.chaos.scene import FIGURES, ROWS, TITLES, Figure

FIGURE_TITLES = ("figure", "count", "median s", "p95 s", "goal")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if rows := terminalreporter.config.stash.get(ROWS, []):
        terminalreporter.section("experiments")
        write_table(terminalreporter, [TITLES, *(row.cells() for row in rows)])
    if figures := terminalreporter.config.stash.get(FIGURES, []):
        terminalreporter.section(f"figures (load {os.getloadavg()[0]:.1f})")
        write_table(terminalreporter, [FIGURE_TITLES, *map(figure_cells, by_kind(figures).values())])


def by_kind(figures: Sequence[Figure]) -> dict[str, list[Figure]]:
    kinds: dict[str, list[Figure]] = {}
    for figure in figures:
        kinds.setdefault(figure.what, []).append(figure)
    return kinds


def figure_cells(figures: Sequence[Figure]) -> tuple[str, ...]:
    seconds = sorted(figure.seconds for figure in figures)
    p95, goal_s = seconds[min(len(seconds) - 1, int(0.95 * len(seconds)))], figures[0].goal_s
    goal = "" if goal_s is None else f"p95 <= {goal_s:g} s: {'met' if p95 <= goal_s else 'NOT MET'}"
    return figures[0].what, str(len(seconds)), f"{statistics.median(seconds):.2f}", f"{p95:.2f}", goal


def write_table(terminalreporter: pytest.TerminalReporter, lines: Sequence[Sequence[str]]) -> None:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        cells = (cell.ljust(width) if not number else cell.rjust(width)
                 for number, (cell, width) in enumerate(zip(line, widths, strict=True)))  # fmt: skip
        terminalreporter.write_line("  ".join(cells))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print a failure as it happens: all experiments together take an hour, and pytest prints it at their end."""
    if report.failed:
        print(f"\nFAILED {report.nodeid} ({report.when}, load {os.getloadavg()[0]:.1f})\n{report.longreprtext[-4000:]}")
