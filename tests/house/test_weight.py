"""What a page makes a browser fetch: a run's page must open quickly over a thin line too."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "static" / "js"
NAMED = {"uplot": ROOT / "node_modules" / "uplot" / "dist" / "uPlot.esm.js"}  # as the import map says
MOST_BYTES = 150_000
IMPORTS = re.compile(r"""(?:\bfrom\s*|\bimport\s*\(?\s*|new URL\(\s*)["']([^"']+)["']""")


def modules(start: Path) -> set[Path]:
    """The module and everything that it imports, at once or later."""
    found: set[Path] = set()
    waiting = [start]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        names = [] if path in NAMED.values() else IMPORTS.findall(path.read_text())
        waiting += [
            NAMED.get(name) or (path.parent / name).resolve() for name in names if name in NAMED or name[0] == "."
        ]
    return found


def test_the_script_of_the_pages_is_light() -> None:
    weights = {path.name: len(gzip.compress(path.read_bytes(), 6)) for path in modules(SCRIPTS / "app.js")}
    assert {"app.js", "charts.js", "uPlot.esm.js"} <= weights.keys()
    assert sum(weights.values()) < MOST_BYTES, sorted(weights.items(), key=lambda item: -item[1])[:10]


def test_every_module_is_reached_from_the_start() -> None:
    reached = modules(SCRIPTS / "app.js")
    assert sorted(str(path.relative_to(SCRIPTS)) for path in SCRIPTS.rglob("*.js") if path not in reached) == []
