from __future__ import annotations

import os
import sysconfig
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from tests.disks import disk_of_1_mb
from tests.workers.training.data.library import make_library
from trainyard.spec.sections.data import TextData
from workers.training.data import corpus
from workers.training.data.corpus import load_corpus
from workers.training.data.problems import DataProblem

LIBRARY = TextData()


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small library in the place of Python's own, and an empty cache."""
    root = make_library(tmp_path)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(root))
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path / "cache"))
    return root


def story(path: Path, num_lines: int = 3000, **changes: Any) -> TextData:
    """Write a text with words that come again, some of it no UTF-8, and return what names it."""
    lines = [f"the {n % 7}th train left the yard at {n % 24} o'clock — ä".encode() for n in range(num_lines)]
    lines[::100] = [b"\xff\xfe raw \x80" for _ in lines[::100]]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return text_at(path, **{"tokens": "bpe", "vocabulary": 300, **changes})


def text_at(path: Path, **changes: Any) -> TextData:
    return TextData(source="text", location=str(path), **changes)


def test_pythons_own_library_is_enough_to_train_on() -> None:
    loaded = load_corpus(LIBRARY)
    assert len(loaded.train) > 3_000_000
    assert 0.01 < len(loaded.validation) / len(loaded.train) < 0.2
    assert loaded.vocabulary == 256 and loaded.tokenizer is None


def test_the_same_sources_give_the_same_bytes(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_corpus(LIBRARY)
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path / "another"))
    second = load_corpus(LIBRARY)
    assert first.digest == second.digest
    assert first.train.tobytes() == second.train.tobytes()


def test_a_change_of_the_sources_is_seen(library: Path) -> None:
    first = load_corpus(LIBRARY)
    (library / "package0" / "new.py").write_text("NEW = True\n")
    second = load_corpus(LIBRARY)
    assert first.digest != second.digest


def test_the_cache_is_built_once(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_corpus(LIBRARY)
    monkeypatch.setattr(corpus, "NpyWriter", None)
    load_corpus(LIBRARY)


def test_what_was_cut_short_is_made_anew(library: Path, tmp_path: Path) -> None:
    whole = load_corpus(LIBRARY).train.tobytes()
    (cut,) = (tmp_path / "cache").glob("*/train.npy")
    os.truncate(cut, 500)
    corpus.release(cut.parent)
    assert load_corpus(LIBRARY).train.tobytes() == whole


def test_pairs_are_the_same_bytes_in_fewer_tokens(tmp_path: Path) -> None:
    data = story(tmp_path / "story.txt")
    plain, pairs = load_corpus(data.model_copy(update={"tokens": "bytes"})), load_corpus(data)
    assert pairs.vocabulary == 300 and pairs.train.dtype == np.uint16
    assert len(pairs.train) < len(plain.train) / 3
    for part, tokens in ((plain.train, pairs.train), (plain.validation, pairs.validation)):
        assert pairs.lengths[tokens].sum() == len(part)
    assert pairs.digest != plain.digest and pairs.num_bytes == plain.num_bytes


def test_the_tokenizer_beside_them_says_which_bytes_they_are(tmp_path: Path) -> None:
    data = story(tmp_path / "story.txt")
    plain, pairs = load_corpus(data.model_copy(update={"tokens": "bytes"})), load_corpus(data)
    tokenizer = Tokenizer.from_file(str(pairs.tokenizer))
    start = plain.train[:1000].tobytes().partition(b"\n")[2].partition(b"\n")[0]
    assert b"the 1th train" in start
    ids = tokenizer.encode(start.decode()).ids
    assert tokenizer.decode(ids) == start.decode()
    assert max(ids) < 300
    where = pairs.train[:600].tolist()
    assert any(where[at : at + len(ids)] == ids for at in range(len(where)))


def test_the_same_text_gives_the_same_tokens_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = story(tmp_path / "story.txt")
    first = load_corpus(data)
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path / "another"))
    second = load_corpus(data)
    assert first.digest == second.digest
    assert first.train.tolist() == second.train.tolist()


def test_another_vocabulary_is_another_entry(tmp_path: Path) -> None:
    data = story(tmp_path / "story.txt")
    assert len(load_corpus(data.model_copy(update={"vocabulary": 280})).train) > len(load_corpus(data).train)


def test_text_that_knows_fewer_pairs_leaves_the_rest_of_the_vocabulary_unused(tmp_path: Path) -> None:
    data = story(tmp_path / "story.txt", vocabulary=70_000)
    loaded = load_corpus(data)
    assert loaded.vocabulary == 70_000 and loaded.train.dtype == np.uint32
    assert len(loaded.lengths) < 70_000 and loaded.train.max() < len(loaded.lengths)


@pytest.mark.parametrize("content", [b"", b"a"])
def test_too_little_text_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_bytes(content)
    with pytest.raises(DataProblem, match=r"empty\.txt has \d bytes of text, too few to train on some and to validate"):
        load_corpus(text_at(tmp_path / "empty.txt"))


def test_a_large_text_is_never_held_whole(tmp_path: Path) -> None:
    line = b"a train that is longer than the yard " * 20 + b"\n"
    with (tmp_path / "long.txt").open("wb") as file:
        for _ in range(40):
            file.write(line * 1400)  # a MB
    data = text_at(tmp_path / "long.txt")
    tracemalloc.start()
    try:
        loaded = load_corpus(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert loaded.num_bytes == (tmp_path / "long.txt").stat().st_size > 40e6
    assert peak < 10e6


def test_a_disk_without_room_for_the_text_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = story(tmp_path / "story.txt", num_lines=60_000)
    with disk_of_1_mb(tmp_path / "disk") as disk:
        monkeypatch.setenv("TRAINYARD_CACHE", str(disk))
        monkeypatch.setenv("TRAINYARD_CACHE_LIMIT_BYTES", str(10**9))
        with pytest.raises(DataProblem, match=rf"the disk of the cache {disk} is full: .* MiB or more are needed and"):
            load_corpus(data.model_copy(update={"tokens": "bytes"}))
