"""What a page makes a browser fetch: a run's page must open quickly over a thin line too."""

from __future__ import annotations

import gzip

import pytest

from dashboard.frontend.bundles import PACKAGES, START, bundles, later_scripts, modules_of, root, script, styles

MOST_BYTES = 125_500  # of a terminal 88,000 are xterm.js
MOST_STYLE_BYTES = 100_000  # of them Tabler's 80,000
WORKERS = ("charts/page/filter_worker.js", "api_docs.js", "root/notices_worker.js")  # no module names them


def weight(text: str) -> int:
    return len(gzip.compress(text.encode(), 6))


@pytest.mark.parametrize(
    "own",
    [
        ["charts/charts.js"], ["compare/compare.js", "charts/charts.js"], ["logs/logs.js"], ["media/media.js"],
        ["terminal/terminal.js"],
    ],
)  # fmt: skip
def test_the_script_of_a_page_is_light(own: list[str]) -> None:
    together = bundles()
    weights = {path: weight(together[path]) for path in (START, *(f"js/{name}" for name in own))}
    packages = {path for name in own for path in script(name) if path in PACKAGES.values()}
    weights |= {
        path: weight((root().parent / "node_modules" / path.removeprefix("npm/")).read_text()) for path in packages
    }
    assert sum(weights.values()) < MOST_BYTES, weights


def test_the_style_of_every_page_is_light() -> None:
    assert weight(styles()["css/site.css"]) < MOST_STYLE_BYTES


def test_every_module_is_reached_from_the_start() -> None:
    reached = {
        one for path in (START, *later_scripts(), *(f"js/{name}" for name in WORKERS)) for one in modules_of(path)
    }
    known = {path.relative_to(root()).as_posix() for path in (root() / "js").rglob("*.js")}
    assert sorted(known - reached) == []
