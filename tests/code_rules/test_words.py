"""One spelling for one thing, in the interface, the documentation and the code."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# In halves, so that this file does not have them either; beside each, what is written.
SPELLINGS = {"optimi" + "ser": "optimizer, as torch writes it", "tokens" + "/s": "tok/s"}
HISTORY = {"CHANGELOG.md"}
LOGS_OF_OTHERS = {"benchmarks/server_cases/bench_search.py"}


@pytest.mark.parametrize("wrong", SPELLINGS)
def test_nothing_is_spelt_in_two_ways(wrong: str) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout: there is no list of tracked files")
    command = ["git", "grep", "-Iil", "--", wrong]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    assert set(found) - HISTORY - LOGS_OF_OTHERS == set(), SPELLINGS[wrong]


def test_pages_speak_as_a_colleague_would() -> None:
    """Words of the machinery stay inside: no page speaks of fences, or of what was told and heard."""
    found = []
    for path in (ROOT / "templates").rglob("*.html"):
        text = re.sub(r"{% comment %}.*?{% endcomment %}|{#.*?#}|{%.*?%}|{{.*?}}", " ", path.read_text(), flags=re.S)
        words = re.sub(r"<[^>]*?(?:title|aria-label|data-words)=\"([^\"]*)\"[^>]*>|<[^>]*>", r" \1 ", text)
        found += [f"{path.name}: {one}" for one in re.findall(r"\b(?:fences?|told|tells?|heard|hears?)\b", words, re.I)]
    assert found == []
