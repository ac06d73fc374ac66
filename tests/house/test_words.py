"""One spelling for one thing, in the interface, the documentation and the code."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# In halves, so that this file does not have them either; beside each, what is written.
SPELLINGS = {"optimi" + "ser": "optimizer, as torch writes it", "tokens" + "/s": "tok/s"}
HISTORY = {"CHANGELOG.md"}
LOGS_OF_OTHERS = {"benchmarks/bench_search.py"}


@pytest.mark.parametrize("wrong", SPELLINGS)
def test_nothing_is_spelt_in_two_ways(wrong: str) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout: there is no list of tracked files")
    command = ["git", "grep", "-Iil", "--", wrong]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    assert set(found) - HISTORY - LOGS_OF_OTHERS == set(), SPELLINGS[wrong]
