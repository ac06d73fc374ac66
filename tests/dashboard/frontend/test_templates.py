"""Templates are read by people as well: their lines fit the screen."""

from __future__ import annotations

from pathlib import Path

from runs.values.status import Status

ROOT = Path(__file__).resolve().parents[3]
LINE_LENGTH = 120


def test_no_line_of_a_template_is_too_long() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / "templates").rglob("*.html"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > LINE_LENGTH
    ]
    assert long == []


def test_no_template_compares_a_status() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {status}"
        for path in sorted((ROOT / "templates").rglob("*.html"))
        for status in Status
        if f'"{status}"' in path.read_text()
    ]
    assert found == [], "what depends on a status is asked of the run's Offers, or drawn by {% status %}"
