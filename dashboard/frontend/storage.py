"""Static files: names that hold a digest, module imports rewritten to them, and an answer fit for ASGI. Third-party
styles, fonts and scripts are served from node_modules, and only the files that stand here."""

import fcntl
import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, ClassVar, cast

from django.conf import settings
from django.contrib.staticfiles import finders
from django.contrib.staticfiles.finders import BaseFinder
from django.contrib.staticfiles.management.commands.collectstatic import Command
from django.core.files.storage import FileSystemStorage
from django.core.management import call_command
from django.http import HttpRequest, HttpResponse
from django.utils.functional import cached_property
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.storage import CompressedManifestStaticFilesStorage

from dashboard.frontend.bundles import bundles, modules_of, styles

PREFIX = "npm"
# Paths inside node_modules, as our styles and the import map name them after "npm/"; setup.py reads them unimported.
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


STAMP = "collected"
MODULES = "js/"
NOT_SERVED = ["*.map", "redoc*", "*.scss"]


def without_source_maps(patterns: Any) -> Any:
    """Third-party files name source maps that are not served; a missing one would stop the collecting."""
    return tuple(
        (extension, tuple(one for one in rules if "sourceMappingURL" not in (one if isinstance(one, str) else one[0])))
        for extension, rules in patterns
    )


class Storage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # whitenoise has no types
    """Static files, each under a name with the digest of its content, cached for ever; ES modules import the new names.

    Our scripts are put together (bundles.py), and share one digest, of all modules: a script and the start import each
    other and could never hold each other's.
    """

    support_js_module_import_aggregation = True
    patterns: ClassVar[Any] = without_source_maps(CompressedManifestStaticFilesStorage.patterns)

    def post_process(self, paths: dict[str, Any], **options: Any) -> Iterator[Any]:
        scripts = bundles()
        for name, text in (scripts | styles()).items():
            Path(self.path(name)).write_text(text)
            paths[name] = (self, name)
        for name in {one for path in scripts for one in modules_of(path)} - scripts.keys():
            self.delete(name)
            del paths[name]
        yield from super().post_process(paths, **options)

    def file_hash(self, name: str | None, content: Any = None) -> str | None:
        if name and name.startswith(MODULES) and name.endswith(".js"):
            return self.digest_of_modules
        return cast("str | None", super().file_hash(name, content))

    @cached_property
    def digest_of_modules(self) -> str:
        digest = hashlib.sha256()
        for folder in settings.STATICFILES_DIRS:
            for path in sorted(Path(folder, MODULES).rglob("*.js")):
                digest.update(path.read_bytes())
        return digest.hexdigest()[:12]


class StaticMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]
    """Answers with the whole file: all of ours are small, and ASGI would warn of a file that is read in pieces."""

    _looked_for = ""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Look for what a web of the next version has collected since: its pages ask us for their files, too."""
        path = request.path_info
        if path.startswith(self.static_prefix) and path not in self.files:
            with suppress(FileNotFoundError):  # it is being collected
                if (found := (Path(self.static_root) / STAMP).read_text()) != self._looked_for:
                    self._looked_for = found
                    self.add_files(self.static_root, self.static_prefix)
        return cast(HttpResponse, super().__call__(request))

    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponse:
        found = static_file.get_response(request.method, request.META)
        body = b""
        if found.file is not None:
            with found.file:
                body = found.file.read()
        response = HttpResponse(body, status=int(found.status))
        del response["content-type"]
        for name, value in found.headers:
            response[name] = value
        return response


def collect() -> bool:
    """Collect the static files into STATIC_ROOT. Returns False when nothing changed since the last time.

    A web of the version before may serve from there: its files stay until the next change, with their manifest, so that
    going back collects nothing. Of several webs that start at once one collects."""
    root = Path(settings.STATIC_ROOT)
    root.mkdir(parents=True, exist_ok=True)
    with root.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp, manifest, wanted = root / STAMP, root / Storage.manifest_name, digest_of_sources()
        current = stamp.read_text() if stamp.exists() else "unknown"
        if current == wanted:
            return False
        # The stamp goes first and comes last: a start that is killed in between collects again.
        stamp.unlink(missing_ok=True)
        kept, keep, before = root / f"{wanted}.json", root / f"{current}.json", set[str]()
        if manifest.exists():
            before = {keep.name, *json.loads(manifest.read_text())["paths"].values()}
            shutil.copyfile(manifest, keep)
        if kept.exists():
            kept.replace(manifest)
        else:
            _collect(root, before)
        stamp.write_text(wanted)
    return True


def _collect(root: Path, before: set[str]) -> None:
    """Put the files of this version there, and leave only those of ``before`` beside them."""
    folder = root.with_suffix(".new")
    shutil.rmtree(folder, ignore_errors=True)  # of a start that was killed
    command = Command()
    command.storage = Storage(location=folder)
    call_command(command, interactive=False, verbosity=0, ignore_patterns=NOT_SERVED)
    for file in sorted(root.rglob("*"), key=lambda one: one.suffix != ".json"):  # no manifest outlives its files
        if file.is_file() and file.relative_to(root).as_posix().removesuffix(".gz") not in before:
            file.unlink()
    for file in [file for file in folder.rglob("*") if file.is_file()]:
        target = root / file.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        file.replace(target)
    shutil.rmtree(folder)


def digest_of_sources() -> str:
    """Changes with every file that is collected, and with how."""
    digest = hashlib.sha256(b"".join(one.read_bytes() for one in sorted(Path(__file__).parent.glob("*.py"))))
    for finder in finders.get_finders():
        for path, storage in finder.list(None):
            content = Path(storage.path(path)).read_bytes()
            digest.update(f"{path} {len(content)}\n".encode() + content)
    return digest.hexdigest()
