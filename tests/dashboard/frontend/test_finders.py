"""Which modules a page's script consists of."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

from dashboard.frontend.finders import PACKAGES, script
from runs.models import Run
from tests.cast import Cast

STATIC = Path(settings.BASE_DIR, "static")
MOST_MODULES = 15  # of a folder
MOST_COLUMNS = 120
HEAVY = ("charts", "compare", "logs", "media", "terminal")  # what comes with the pages that have it


def test_a_script_is_the_module_and_all_that_it_imports() -> None:
    found = script("charts/charts.js")
    assert found[0] == "js/charts/charts.js"
    assert {"js/charts/settings/state.js", "js/shared/format.js"} <= set(found)
    assert len(found) == len(set(found))
    assert all((STATIC / path).is_file() for path in found if path not in PACKAGES.values())


def test_a_package_is_the_file_that_the_import_map_names() -> None:
    assert script("media/views/markdown.js")[1:] == (PACKAGES["dompurify"], PACKAGES["marked"])


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


@pytest.mark.django_db
def test_the_page_of_a_run_names_the_modules_of_its_charts_behind_the_import_map(
    cast: Cast, client: Client, make_run: Callable[..., Run]
) -> None:
    client.force_login(cast.mate)
    text = client.get(f"/runs/{make_run().pk}/").content.decode()
    named = re.findall(r'<link rel="modulepreload" href="/static/([^"]+)">', text)
    assert sorted(named) == sorted({*script("app.js"), *script("charts/charts.js")})
    assert text.index('type="importmap"') < text.index("modulepreload") < text.index("</head>")
