"""The peers of `make bench`: together where that works, else one by one, and none of them in our own environment."""

import importlib.metadata
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from benchmarks import trackers
from dashboard.setup.steps import SetupError


class FakeInstaller:
    """Stands for `Installer`: refuses everything with one of these words in it."""

    name = "nobody"

    def __init__(self, *refused: str) -> None:
        self.refused = set(refused)
        self.asked: list[list[str]] = []

    def install(self, words: Sequence[str | Path], sentence: str) -> None:
        self.asked.append([str(word) for word in words])
        if self.refused & set(self.asked[-1]):
            raise SetupError(sentence, "no such wheel")


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name, path in (("FOLDER", "venv"), ("PYTHON", "venv/bin/python"), ("STAMP", "venv/setup.txt")):
        monkeypatch.setattr(trackers, name, tmp_path / path)
    return tmp_path / "venv"


def ensure_with(monkeypatch: pytest.MonkeyPatch, fake: FakeInstaller) -> None:
    monkeypatch.setattr(trackers, "Installer", lambda python: fake)
    trackers.ensure()


def test_the_lock_is_installed_once(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    fake = FakeInstaller()
    ensure_with(monkeypatch, fake)
    ensure_with(monkeypatch, fake)
    assert fake.asked == [["--no-deps", "--require-hashes", "-r", str(trackers.LOCK)]]
    assert (folder / "bin" / "python").exists()


def test_one_that_cannot_be_installed_is_named_and_the_others_are_there(
    monkeypatch: pytest.MonkeyPatch, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = FakeInstaller("--require-hashes", "mlflow")
    ensure_with(monkeypatch, fake)
    assert [words[-1] for words in fake.asked[1:]] == list(trackers.NAMES)
    assert "mlflow could not be installed." in capsys.readouterr().out
    assert not (folder / "setup.txt").exists()  # so that it is tried again


def test_the_peers_are_those_of_the_project_file() -> None:
    groups = tomllib.loads((trackers.ROOT / "pyproject.toml").read_text())["dependency-groups"]
    wanted = [Requirement(text) for text in groups["peers"]]
    assert sorted(f"{one.name}[{one.extras.pop()}]" if one.extras else one.name for one in wanted) == sorted(
        trackers.NAMES
    )


@pytest.mark.parametrize("name", trackers.NAMES)
def test_a_peer_is_pinned_and_not_in_our_own_environment(name: str) -> None:
    name = Requirement(name).name
    assert f"\n{name}==" in "\n" + trackers.LOCK.read_text()
    if name in ("ray", "tensorboard", "wandb"):
        return  # `make ray` installs it beside us; tests write files with the others
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version(name)
