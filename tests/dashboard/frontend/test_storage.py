"""Static files: only what is allowed leaves node_modules, and modules import each other by their digests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings, settings
from django.contrib.staticfiles import finders
from django.contrib.staticfiles.management.commands import collectstatic
from django.core.files.storage import FileSystemStorage
from django.http import HttpRequest, HttpResponse

from dashboard.frontend import storage
from dashboard.frontend.storage import ALLOWED, StaticMiddleware, collect
from tests.up_process import Up


@pytest.mark.parametrize("path", ALLOWED)
def test_what_is_allowed_is_there(path: str) -> None:
    assert finders.find(f"npm/{path}") == str(settings.BASE_DIR / "node_modules" / path)


@pytest.mark.parametrize(
    "path", ["npm/marked/package.json", "npm/../package.json", "npm/@tabler/core/../../marked/README.md"]
)
def test_nothing_else_leaves_node_modules(path: str) -> None:
    assert finders.find(path) is None


def test_modules_import_each_other_by_names_with_digests(running_trainyard: Up) -> None:
    root = Path(running_trainyard.home / "static")
    names: dict[str, str] = json.loads((root / "staticfiles.json").read_text())["paths"]
    ours = {name: hashed for name, hashed in names.items() if name.startswith("js/")}
    assert "js/app.js" in ours
    for hashed in ours.values():
        text = (root / hashed).read_text()
        for target in re.findall(r"""(?:from|import)\s*\(?["']\.?/?([\w/.-]+\.js)["']""", text):
            assert re.search(r"\.[0-9a-f]{12}\.js$", target), f"{hashed} imports {target}"


@pytest.fixture
def style(tmp_path: Path, settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stylesheet that is all there is to collect."""
    found = tmp_path / "source" / "one.css"
    found.parent.mkdir()
    found.write_text("a {}")

    class Finder(finders.BaseFinder):
        def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, Any]]:
            yield found.name, FileSystemStorage(location=found.parent)

    settings.STATIC_ROOT = tmp_path / "static"
    for module in (finders, collectstatic):
        monkeypatch.setattr(module, "get_finders", lambda: [Finder()])
    for name in ("bundles", "styles"):
        monkeypatch.setattr(storage, name, dict)
    return found


def hashed(style: Path) -> str:
    paths: dict[str, str] = json.loads((Path(settings.STATIC_ROOT) / "staticfiles.json").read_text())["paths"]
    return paths[style.name]


def test_files_of_the_version_before_stay_until_the_next_one(style: Path) -> None:
    root, names = Path(settings.STATIC_ROOT), list[str]()
    for number in range(3):
        style.write_text(f"a {{ width: {number}px }}" * 100)
        assert collect()
        names.append(hashed(style))
    assert not collect()
    assert sorted(one.name for one in root.glob("one.*.css*")) == sorted(
        f"{name}{end}" for name in names[1:] for end in ("", ".gz")
    )
    assert sorted(one.name for one in root.parent.iterdir()) == ["source", "static", "static.lock"]


def test_going_back_takes_the_files_that_are_still_there(style: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"a {{ width: {number}px }}" * 100 for number in range(2)]
    names = []
    for text in texts:
        style.write_text(text)
        assert collect()
        names.append(hashed(style))
    with monkeypatch.context() as patch:
        patch.setattr(storage, "call_command", lambda *_, **__: pytest.fail("it collects again"))
        for number in (0, 1, 0):
            style.write_text(texts[number])
            assert collect()
            assert hashed(style) == names[number]
            assert not collect()
            style.touch()  # as an install does
            assert not collect()
    style.write_text("a { width: 2px }")
    assert collect()
    root = Path(settings.STATIC_ROOT)
    assert sorted(one.name for one in root.glob("one.*.css")) == sorted((names[0], hashed(style)))
    style.write_text(texts[1])  # two back: its files are gone, and so is their manifest
    assert collect()
    assert (root / names[1]).exists()


def test_of_two_webs_that_start_at_once_one_collects(style: Path) -> None:
    with ThreadPoolExecutor() as pool:
        assert sorted(pool.map(lambda _: collect(), range(4))) == [False, False, False, True]


def test_a_web_has_the_files_of_the_next_version_too(style: Path) -> None:
    collect()
    web = StaticMiddleware(lambda _: HttpResponse(status=404))
    style.write_text("a { width: 1px }")
    collect()

    def status(name: str) -> int:
        request = HttpRequest()
        request.path_info, request.method = f"/static/{name}", "GET"
        return int(web(request).status_code)

    assert status(hashed(style)) == 200
    assert [status(name) for name in ("", "none.css", "../source/one.css", "a\0b", "x" * 300)] == [404] * 5
