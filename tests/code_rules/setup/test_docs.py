"""`make docs`: each page of the index is drawn, with the SDK's docstrings, nothing from the network, no dead link."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from dashboard.setup.steps import ROOT
from tests.contributing import DOCS_FOLDER

pytestmark = [pytest.mark.extended, pytest.mark.slow]
LOADED = re.compile(r'<(?:script|img|iframe)[^>]* src="(?:https?:)?//|<link[^>]* href="(?:https?:)?//')


@pytest.fixture(scope="module")
def drawn() -> Path:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(["make", "docs"], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return ROOT / "build" / "docs"


def test_each_page_is_drawn_and_stands_in_the_navigation(drawn: Path) -> None:
    names = [path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")]
    assert [name for name in names if not (drawn / name).is_file()] == []
    entries = re.findall(
        r'toctree-l1"><a class="reference internal" href="([^"#]+)"', (drawn / "index.html").read_text()
    )
    assert sorted(entries) == sorted(
        [*(str(name) for name in names if str(name) != "index.html"), "reference/sdk.html"]
    )


def test_the_sdk_stands_there_with_its_docstrings(drawn: Path) -> None:
    text = (drawn / "reference" / "sdk.html").read_text()
    for name in ("init", "Run.log", "Table", "Api.runs"):
        assert f'id="trainyard.{name}"' in text


def test_pages_load_nothing_from_elsewhere(drawn: Path) -> None:
    assert [path.name for path in drawn.rglob("*.html") if LOADED.search(path.read_text())] == []


@pytest.mark.parametrize("link", ["nowhere.md", "other.md#nowhere"])
def test_a_dead_link_fails(drawn: Path, tmp_path: Path, link: str) -> None:
    (tmp_path / "conf.py").write_bytes((ROOT / "docs" / "conf.py").read_bytes())
    (tmp_path / "index.md").write_text(f"# Index\n\n## Tutorials\n\n- [Other](other.md): Leads to [it]({link}).\n")
    (tmp_path / "other.md").write_text("# Other\n\nText.\n")
    command = [DOCS_FOLDER / "bin" / "python", "-m", "sphinx", "-q", "-W", tmp_path, tmp_path / "drawn"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 1 and "nowhere" in done.stderr
