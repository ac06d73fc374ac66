"""What the README shows is there, and runs."""

import re
from pathlib import Path

import pytest

from trainyard.cli.parser import build_parser

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
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


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_people_are_sent_to_is_there(path: str) -> None:
    assert (ROOT / path).exists()
