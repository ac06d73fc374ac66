"""What the README and its neighbours show is there, and runs."""

import re
from pathlib import Path

import pytest

from trainyard.cli.parser import build_parser

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
WORDS = README + (ROOT / "CONTRIBUTING.md").read_text()
PATHS = sorted(set(re.findall(r"`((?:trainyard|workers|runs|dashboard|templates|docs|examples)/[a-z_/.]*)`", WORDS)))
COMMANDS = sorted(set(re.findall(r"^trainyard ([a-z]+)", README, re.MULTILINE)))


def test_the_readme_shows_commands() -> None:
    assert "submit" in COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_is_there(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args([command, "--help"])
    assert ended.value.code == 0 and command in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_people_are_sent_to_is_there(path: str) -> None:
    assert (ROOT / path).exists()
