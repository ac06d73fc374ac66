"""What a page makes a browser fetch: a run's page must open quickly over a thin line too."""

from __future__ import annotations

import gzip
import re
from collections.abc import Collection
from pathlib import Path

import pytest

from dashboard.frontend.finders import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "static" / "js"
NAMED = {
    name: ROOT / "node_modules" / path.removeprefix("npm/") for name, path in PACKAGES.items()
}  # as the import map says
MOST_BYTES = 150_000
LATER = (
    "charts/charts.js",
    "compare/compare.js",
    "launch/launch.js",
    "logs/logs.js",
    "media/media.js",
    "launch/mesh.js",
    "launch/vary.js",
    "sweeps/sweep.js",
    "terminal/terminal.js",
)  # with the pages that have them
WORKERS = ("charts/page/filter_worker.js", "api_docs.js")  # named by templates
IMPORTS = re.compile(r"""(?:\bfrom\s*|\bimport\s*\(?\s*|new URL\(\s*)["']([^"']+)["']""")


def modules(start: Path, *, without: Collection[Path] = ()) -> set[Path]:
    """The module and everything that it imports, at once or later, but those ``without`` and what only they import."""
    found: set[Path] = set()
    waiting = [start]
    while waiting:
        path = waiting.pop()
        if path in found or path in without:
            continue
        found.add(path)
        names = [] if path in NAMED.values() else IMPORTS.findall(path.read_text())
        waiting += [
            NAMED.get(name) or (path.parent / name).resolve() for name in names if name in NAMED or name[0] == "."
        ]
    return found


@pytest.mark.parametrize(
    "own",
    [
        ["charts/charts.js"], ["compare/compare.js", "charts/charts.js"], ["logs/logs.js"], ["media/media.js"],
        ["terminal/terminal.js"],
    ],
)  # fmt: skip
def test_the_script_of_a_page_is_light(own: list[str]) -> None:
    later = {SCRIPTS / name for name in LATER}
    wanted = {path for name in own for path in modules(SCRIPTS / name)} | modules(SCRIPTS / "app.js", without=later)
    weights = {path.name: len(gzip.compress(path.read_bytes(), 6)) for path in wanted}
    assert {"app.js", Path(own[0]).name} <= weights.keys()
    assert sum(weights.values()) < MOST_BYTES, sorted(weights.items(), key=lambda item: -item[1])[:10]


def test_every_module_is_reached_from_the_start() -> None:
    reached = modules(SCRIPTS / "app.js").union(*(modules(SCRIPTS / name) for name in WORKERS))
    assert sorted(str(path.relative_to(SCRIPTS)) for path in SCRIPTS.rglob("*.js") if path not in reached) == []
