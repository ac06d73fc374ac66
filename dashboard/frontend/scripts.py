"""Modules of a page's script: named in the page, they are fetched together, not one behind the other."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from django.conf import settings

# Bare names that our modules import, and the file of the npm package that each means.
PACKAGES = {
    "@xterm/addon-fit": "npm/@xterm/addon-fit/lib/addon-fit.mjs",
    "@xterm/xterm": "npm/@xterm/xterm/lib/xterm.mjs",
    "dompurify": "npm/dompurify/dist/purify.es.mjs",
    "echarts": "npm/echarts/dist/echarts.esm.min.mjs",
    "marked": "npm/marked/lib/marked.esm.js",
}
FOLDER = "js"
IMPORTS = re.compile(r"""^(?:import|export)\b(?:[^"'`;]*?\bfrom)?\s+["']([^"']+)["'];""", re.MULTILINE)


@cache
def script(name: str) -> tuple[str, ...]:
    """Return the static paths of the module ``js/<name>`` and of all that it imports at once, itself first.

    What it imports later (``import("./x.js")``) is a script of its own.
    """
    root = Path(settings.BASE_DIR, "static").resolve()
    found: dict[str, None] = {}
    waiting = [f"{FOLDER}/{name}"]
    while waiting:
        path = waiting.pop(0)
        if path in found:
            continue
        found[path] = None
        if path in PACKAGES.values():
            continue
        for imported in IMPORTS.findall((root / path).read_text()):
            beside = (root / path).parent / imported
            waiting.append(PACKAGES.get(imported) or beside.resolve().relative_to(root).as_posix())
    return tuple(found)
