"""The glossary explains words that are in use, in the order of the alphabet."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/glossary.md"
WORDS = re.findall(r"^- \*\*([a-z][a-z ]+)\*\*:", PAGE.read_text(), re.MULTILINE)
MOST_WORDS = 67


@cache
def everything_else() -> str:
    folders = ("trainyard", "workers", "runs", "dashboard", "docs")
    paths = [path for folder in folders for kind in ("*.py", "*.md") for path in (ROOT / folder).rglob(kind)]
    text = "\n".join(path.read_text() for path in paths if path != PAGE)
    return " ".join(re.sub(r"([a-z])([A-Z])", r"\1 \2", text).lower().replace("_", " ").split())  # names hold words


def test_the_words_stand_in_order_and_are_few() -> None:
    assert sorted(set(WORDS)) == WORDS
    assert 0 < len(WORDS) <= MOST_WORDS


@pytest.mark.parametrize("word", WORDS)
def test_a_word_of_the_glossary_is_in_use(word: str) -> None:
    assert re.search(rf"\b{word}", everything_else()), f"nothing in the code or the docs says {word!r}"
