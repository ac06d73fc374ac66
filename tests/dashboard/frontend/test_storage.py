"""Static files: only what is allowed leaves node_modules, and modules import each other by their digests."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.staticfiles import finders

from dashboard.frontend.storage import ALLOWED
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
