"""The table of the experiments, at the end of `make chaos`."""

from __future__ import annotations

import pytest

from tests.chaos.scene import ROWS, TITLES


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    rows = terminalreporter.config.stash.get(ROWS, [])
    if not rows:
        return
    lines = [TITLES, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(TITLES))]
    terminalreporter.section("experiments")
    for line in lines:
        cells = (cell.ljust(width) if not number else cell.rjust(width)
                 for number, (cell, width) in enumerate(zip(line, widths, strict=True)))  # fmt: skip
        terminalreporter.write_line("  ".join(cells))
