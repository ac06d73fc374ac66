from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import pytest

from workers.training.data.corpus import load_corpus
from workers.training.recipes import corpus


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small library in the place of Python's own, and an empty cache."""
    root = tmp_path / "library"
    for index in range(60):
        folder = root / f"package{index % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"module{index}.py").write_text(f"NUMBER = {index}\n" * 20)
    (root / "test").mkdir()
    (root / "test" / "test_it.py").write_text("TEST" * 50)
    (root / "site-packages").mkdir()
    (root / "site-packages" / "other.py").write_text("INSTALLED" * 50)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(root))
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path / "cache"))
    return root


def test_pythons_own_library_is_enough_to_train_on() -> None:
    loaded = load_corpus("python-stdlib")
    assert len(loaded.train) > 3_000_000
    assert 0.01 < len(loaded.validation) / len(loaded.train) < 0.2


def test_the_two_parts_come_from_different_files(library: Path) -> None:
    loaded = load_corpus("python-stdlib")
    train, validation = (set(part.tobytes().decode().splitlines()) for part in (loaded.train, loaded.validation))
    assert train and validation
    assert not train & validation
    assert len(train | validation) == 60


def test_tests_and_installed_packages_are_left_out(library: Path) -> None:
    loaded = load_corpus("python-stdlib")
    text = loaded.train.tobytes() + loaded.validation.tobytes()
    assert b"TEST" not in text
    assert b"INSTALLED" not in text


def test_the_same_sources_give_the_same_bytes(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_corpus("python-stdlib")
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path / "another"))
    second = load_corpus("python-stdlib")
    assert first.digest == second.digest
    assert first.train.tobytes() == second.train.tobytes()


def test_a_change_of_the_sources_is_seen(library: Path) -> None:
    first = load_corpus("python-stdlib")
    (library / "package0" / "new.py").write_text("NEW = True\n")
    second = load_corpus("python-stdlib")
    assert first.digest != second.digest


def test_the_cache_is_built_once(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_corpus("python-stdlib")
    monkeypatch.setattr(corpus, "build_cache", None)
    load_corpus("python-stdlib")


def test_a_file_cut_short_is_not_trained_on(library: Path, tmp_path: Path) -> None:
    load_corpus("python-stdlib")
    (cached,) = (tmp_path / "cache").glob("*.bin")
    os.truncate(cached, 500)
    with pytest.raises(ValueError, match="is not a whole corpus: delete it"):
        load_corpus("python-stdlib")


def test_a_guessable_folder_that_others_can_write_is_refused(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRAINYARD_CACHE")
    monkeypatch.setattr(corpus.tempfile, "gettempdir", lambda: str(tmp_path))
    (tmp_path / f"trainyard-cache-{os.getuid()}").mkdir()
    (tmp_path / f"trainyard-cache-{os.getuid()}").chmod(0o777)
    with pytest.raises(PermissionError, match="set TRAINYARD_CACHE"):
        load_corpus("python-stdlib")


def test_an_unknown_source_is_refused_by_its_field() -> None:
    with pytest.raises(ValueError, match=r"task\.data\.source is 'imagenet'; accepted are python-stdlib"):
        load_corpus("imagenet")
