"""Third-party styles, fonts and scripts: served from node_modules, and only the files that stand here;
and the modules of a page's script."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage

PREFIX = "npm"
# Paths inside node_modules, as our styles and the import map name them after "npm/".
ALLOWED = (
    "@tabler/core/dist/css/tabler.min.css",
    "@fontsource-variable/inter/files/inter-latin-wght-normal.woff2",
    "@fontsource-variable/inter/files/inter-latin-ext-wght-normal.woff2",
    "@fontsource-variable/jetbrains-mono/files/jetbrains-mono-latin-wght-normal.woff2",
    "@xterm/addon-fit/lib/addon-fit.mjs",
    "@xterm/xterm/css/xterm.css",
    "@xterm/xterm/lib/xterm.mjs",
    "dompurify/dist/purify.es.mjs",
    "echarts/dist/echarts.esm.min.mjs",
    "marked/lib/marked.esm.js",
)


class NpmFinder(BaseFinder):
    """Finds ``npm/PACKAGE/FILE`` for the files that are allowed."""

    def __init__(self, app_names: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.storage = FileSystemStorage(location=settings.BASE_DIR / "node_modules")
        self.storage.prefix = PREFIX  # type: ignore[attr-defined]  # collectstatic and whitenoise put it in front

    def check(self, **kwargs: Any) -> list[Any]:
        return []

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:
        prefix, _, rest = path.partition("/")
        if prefix != PREFIX or rest not in ALLOWED or not self.storage.exists(rest):
            return []  # for one and for all, as the finders of Django do
        found = self.storage.path(rest)
        return [found] if find_all else found

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, FileSystemStorage]]:
        for path in ALLOWED:
            is_ignored = any(fnmatchcase(path, pattern) for pattern in ignore_patterns or ())
            if not is_ignored and self.storage.exists(path):
                yield path, self.storage


# Modules of a page's script: named in the page, they are fetched together, not one behind the other.

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
