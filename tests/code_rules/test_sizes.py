"""Files and functions stay of a size that a reader holds in the head; no text names a registry's host."""

import ast
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES_IN_FILE = 600
MOST_LINES_IN_FUNCTION = 60
MOST_CHARACTERS_IN_LINE = 120
PACKAGES = ("trainyard", "workers", "runs", "dashboard", "benchmarks", "examples", "tests")
# Spelt in halves, so that this file does not name them either.
HOSTS = ("pypi" + ".org", "python" + "hosted", "registry.npm" + "js", "download.py" + "torch", "deb.deb" + "ian")


def sources() -> list[Path]:
    """What people write and read; migrations are written by Django."""
    found = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return sorted(path for path in found if not {"node_modules", "migrations"} & set(path.parts))


def test_no_source_file_is_too_long() -> None:
    long = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in sources()}
    assert {name: lines for name, lines in long.items() if lines > MOST_LINES_IN_FILE} == {}


def test_no_line_of_a_page_is_too_long() -> None:
    """ruff checks Python and Biome formats scripts and styles, but neither sees templates or long comments."""
    kinds = {"templates": "html", "static/css": "css", "static/js": "js"}
    pages = [path for folder, kind in kinds.items() for path in sorted((ROOT / folder).rglob(f"*.{kind}"))]
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in pages
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > MOST_CHARACTERS_IN_LINE
    ]
    assert long == []


def test_no_function_is_too_long() -> None:
    long: dict[str, int] = {}
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
                lines = node.end_lineno - node.lineno + 1
                if lines > MOST_LINES_IN_FUNCTION:
                    long[f"{path.relative_to(ROOT)}:{node.name}"] = lines
    assert long == {}


def test_no_tracked_text_names_a_registry_host() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout: there is no list of tracked files")
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    named = []
    for name in filter(None, listing.split("\0")):
        path = ROOT / name
        text = path.read_text(errors="ignore") if path.is_file() else ""
        named += [f"{name}: {host}" for host in HOSTS if host in text]
    assert named == []
