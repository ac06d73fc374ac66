"""Scripts and styles put together: each module once, names of their own, and what cannot be held is refused."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

from dashboard.frontend import bundles
from dashboard.frontend.bundles import PACKAGES, START, script
from dashboard.setup.node import find_node
from runs.models import Run
from tests.cast import Cast

STATIC = Path(settings.BASE_DIR, "static")
MOST_MODULES = 15  # of a folder
MOST_COLUMNS = 120
HEAVY = ("charts", "compare", "logs", "media", "terminal")  # what comes with the pages that have it


def test_a_script_is_the_module_and_all_that_it_imports() -> None:
    found = script("charts/charts.js")
    assert found[-1] == "js/charts/charts.js"
    assert {"js/charts/settings/state.js", "js/shared/format.js"} <= set(found)
    assert len(found) == len(set(found))
    assert all((STATIC / path).is_file() for path in found if path not in PACKAGES.values())


def test_a_package_is_the_file_that_the_import_map_names() -> None:
    assert script("media/views/markdown.js")[:-1] == (PACKAGES["dompurify"], PACKAGES["marked"])


def test_no_import_is_overlooked() -> None:
    """Counted otherwise: every place where a module names another one is known to the script that the module is of."""
    for name in ("app.js", *(f"{one}/{one}.js" for one in HEAVY)):
        known = set(script(name))
        for path in known - set(PACKAGES.values()):
            text = (STATIC / path).read_text()
            named = re.findall(r"""(?:from|import)\s+["']([^"']+\.js)["']""", text)
            assert {((STATIC / path).parent / one).resolve() for one in named} <= {STATIC / one for one in known}


def test_what_only_some_pages_have_is_not_of_the_start() -> None:
    assert not [path for path in script("app.js") if path.startswith(tuple(f"js/{one}/" for one in HEAVY))]


def test_folders_and_lines_are_short() -> None:
    modules = list((STATIC / "js").rglob("*.js"))
    folders = Counter(path.parent for path in modules)
    assert {str(folder): num for folder, num in folders.items() if num > MOST_MODULES} == {}
    # The formatter leaves comments and texts as they are.
    lines = [(path.name, line) for path in modules for line in path.read_text().splitlines()]
    assert [(name, line) for name, line in lines if len(line) > MOST_COLUMNS] == []


def test_each_module_is_in_one_bundle_and_reads_as_javascript(tmp_path: Path) -> None:
    together = bundles.bundles()
    held = Counter(
        one for text in together.values() for one in re.findall(r"^const (\$\w+) = \(\(\)", text, re.MULTILINE)
    )
    known = {one for path in together for one in bundles.modules_of(path)}
    assert held == {bundles.names(path): 1 for path in known}
    for number, text in enumerate(together.values()):
        (tmp_path / f"{number}.mjs").write_text(text)
        subprocess.run([find_node(), "--check", tmp_path / f"{number}.mjs"], check=True)


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """``sources(**texts)``: modules in the place of ours, by name without ``.js``."""
    monkeypatch.setattr(bundles, "root", lambda: tmp_path)
    script.cache_clear()

    def write(**texts: str) -> None:
        (tmp_path / "js").mkdir()
        for name, text in texts.items():
            (tmp_path / "js" / f"{name}.js").write_text(text)

    yield write
    script.cache_clear()


def test_a_bundle_does_what_its_modules_do(sources: Callable[..., None], tmp_path: Path) -> None:
    sources(
        app='import * as all from "./shared.js";\nimport { size as its } from "./own.js";\n'
        'const size = 1;\nexport const load = () => import("./page.js");\n'
        "console.log(size, its(), all.next());\nload();\n",
        own='// Not `import("./nothing.js")`.\nconst inner = 20;\nexport function size() {\n  return inner;\n}\n',
        shared='let number = 0;\n/** @type {import("./nothing.js").No} */\nexport const next = () => (number += 1);\n'
        "export class Box {}\n",
        page='import {\n  Box,\n  next,\n} from "./shared.js";\nimport { late } from "./late.js";\n'
        'console.log(next(), late, new Box() instanceof Box);\nimport("./other.js");\n'
        # a script of its own that others import at once, too
        'import("./late.js").then((one) => console.log(one.late));\n',
        other='import { late } from "./late.js";\nconsole.log(late);\n',
        late="const late = 'late';\n\nexport { late };\n",
    )  # fmt: skip
    found = bundles.bundles()
    assert sorted(found) == ["js/app.js", "js/late.js", "js/other.js", "js/page.js"]
    for name, text in found.items():
        (tmp_path / name.removeprefix("js/")).write_text(text)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    done = subprocess.run([find_node(), tmp_path / "app.js"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["1 20 1", "2 late true", "late", "late"]


def test_a_circle_and_a_name_that_changes_are_refused(sources: Callable[..., None]) -> None:
    sources(
        app='import { b } from "./b.js";\nexport const a = b;\n',
        b='import { a } from "./app.js";\nexport const b = a;\n',
        changing="export let number = 1;\n",
    )
    with pytest.raises(ValueError, match=r"js/app\.js imports itself by way of js/b\.js"):
        bundles.bundles()
    with pytest.raises(ValueError, match=r"js/changing\.js has a statement that no bundle can hold: export let number"):
        bundles.wrapped("js/changing.js", START)


def test_a_stylesheet_holds_what_it_imports_in_its_order() -> None:
    text = bundles.styles()["css/site.css"]
    assert "@import" not in text
    places = [text.index(word) for word in ("@layer tabler {", "--ground:", ".rail {", ".btn {", ".run-head")]
    assert places == sorted(places)


def test_a_stylesheet_says_nothing_of_siblings_of_any_kind() -> None:
    """It would cost a table of 4,000 elements its whole style when one row comes: 25 ms of each frame of a scroll."""
    any_kind = r"[+~]\s*(?:\*|:not\([\w-]+\))(?=[\s,{:>])"
    for path, text in bundles.styles().items():
        assert re.findall(rf"[^{{}}]*{any_kind}[^{{}}]*\{{", text) == [], path


@pytest.mark.django_db
def test_the_page_of_a_run_names_its_scripts_and_one_stylesheet_behind_the_import_map(
    cast: Cast, client: Client, make_run: Callable[..., Run]
) -> None:
    client.force_login(cast.mate)
    text = client.get(f"/runs/{make_run().pk}/").content.decode()
    assert re.findall(r'<link rel="modulepreload" href="/static/([^"]+)"', text) == ["js/charts/charts.js"]
    assert re.findall(r'<link rel="stylesheet" href="/static/([^"]+)">', text) == ["css/site.css", "css/charts.css"]
    assert text.index('type="importmap"') < text.index("modulepreload") < text.index("</head>")
