"""The documentation is in order: short pages, each in the index once, and links that lead somewhere."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
READ = sorted(page for page in DOCS.rglob("*.md") if "decisions" not in page.parts)
MOST_WORDS = 1_200
KINDS = ["Tutorials", "How-to guides", "Reference", "Explanation"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_to_a_heading_or_a_file(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)", prose(page))
    assert [link for link, _ in links if link and not (page.parent / link).exists()] == []
    missing = [(link, anchor) for link, anchor in links if anchor and anchor not in anchors(page.parent / link, page)]
    assert missing == []


def test_each_page_has_one_title() -> None:
    assert [page.name for page in PAGES if len(re.findall(r"^# ", prose(page), re.MULTILINE)) != 1] == []


def test_no_page_is_long() -> None:
    words = {page.name: len(page.read_text().split()) for page in READ if page.name != "index.md"}  # a line for each
    assert {name: many for name, many in words.items() if many > MOST_WORDS} == {}


def test_the_index_lists_each_page_once_with_its_title_and_one_sentence() -> None:
    text = (DOCS / "index.md").read_text()
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == KINDS
    rows = re.findall(r"^- \[(.+?)\]\((\S+?)\): (.+)$", text, re.MULTILINE)
    assert len(rows) == len(re.findall(r"^- ", text, re.MULTILINE))
    assert Counter(name for _, name, _ in rows) == Counter(
        str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if page.name != "index.md"
    )
    assert [name for title, name, _ in rows if not (DOCS / name).read_text().startswith(f"# {title}\n")] == []
    assert [words for _, _, words in rows if not words.endswith(".")] == []


def test_commands_of_a_server_have_its_user_and_its_settings() -> None:
    """A bare `trainyard` in a new shell would make a new home in the current folder."""
    for name in ("deploy.md", "operate.md"):
        commands = "".join(re.findall(r"^```sh\n(.*?)^```", (DOCS / name).read_text(), re.MULTILINE | re.DOTALL))
        assert commands.count("as_trainyard() { systemd-run") == 1, f"{name} says what it is"
        assert re.findall(r"^(?:[A-Z_]+=\S+ +)*trainyard .*", commands, re.MULTILINE) == []
        assert "runuser -u trainyard" not in commands


BY_NAME = re.compile(r"""pip3? install[^\n]*?["' ]trainyard(?![\w/.-])""")
SUFFIXES = {".md", ".html", ".yml", ".yaml", ".env", ".service", ".sh", ""}


def test_trainyard_is_installed_from_its_wheel() -> None:
    """By its name pip would fetch the package of another project from the public index."""
    files = [page for page in ROOT.glob("*.md") if page.is_file()]
    files += [file for folder in (DOCS, ROOT / "templates") for file in folder.rglob("*")
              if file.is_file() and file.suffix in SUFFIXES and "__pycache__" not in file.parts]  # fmt: skip
    assert {str(file.relative_to(ROOT)): found for file in files if (found := BY_NAME.findall(file.read_text()))} == {}
    for wrong in ("pip install trainyard", "pip install 'trainyard[s3]'", "pip install -U trainyard==0.1.0`"):
        assert BY_NAME.search(wrong)
    for right in ("pip install './trainyard-0.1.0-py3-none-any.whl[server]'", "pip install ./trainyard-*.whl"):
        assert not BY_NAME.search(right)


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(target: Path, page: Path) -> set[str]:
    """Return the anchors of the headings of a page as GitHub names them; of none, of the page with the link."""
    headings = re.findall(r"^#+ (.*)$", prose(page if target == page.parent else target), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def test_the_check_of_anchors_is_checked(tmp_path: Path) -> None:
    page = tmp_path / "one.md"
    page.write_text("# The `spec`, in [short](two.md)\n\n```\n# no heading\n```\n")
    assert anchors(page, page) == anchors(page.parent, page) == {"the-spec-in-short"}
