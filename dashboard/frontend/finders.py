"""Third-party styles, fonts and scripts: served from node_modules, and only the files that stand here."""

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
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
            if not any(fnmatchcase(path, pattern) for pattern in ignore_patterns or ()) and self.storage.exists(path):
                yield path, self.storage
