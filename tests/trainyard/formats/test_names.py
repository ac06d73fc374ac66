"""Names hold nothing that cannot be seen and nothing that turns the direction of what follows."""

from __future__ import annotations

import pytest

from trainyard.formats.names import hidden_in, without_hidden
from trainyard.spec import SpecError, parse_spec

HIDDEN = [
    *(chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))),  # embeddings, overrides, isolates
    *"\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\u061c\u00ad",  # zero width, marks of direction, the soft hyphen
    *"\u2028\u2029\x00\x1b\x7f\x85",  # separators and controls
    *"\u3164\u2800\U000e0041",  # letters that are drawn as nothing
]
SPEC = {"task": {"script": "train.py", "code": "."}}


@pytest.mark.parametrize("char", HIDDEN, ids=lambda char: f"U+{ord(char):04X}")
def test_what_cannot_be_seen_is_found(char: str) -> None:
    assert hidden_in(f"run{char}-1") == [char]
    assert without_hidden(f"run{char}-1") == "run-1"


@pytest.mark.parametrize(
    "name", ["hello-gpt", "größe 4 (b)", "学習-1", "ניסוי", "تجربة", "lr=3e-4 ✓", "run \u2764\ufe0f"]
)
def test_names_of_every_language_are_names(name: str) -> None:
    assert hidden_in(name) == [] and without_hidden(name) == name
    assert parse_spec({**SPEC, "name": name, "tags": [name]}).name == name


def test_a_run_of_such_a_name_is_refused_and_the_error_shows_the_character() -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec({**SPEC, "name": "run-\u202egnp.exe"})
    [problem] = caught.value.errors
    assert problem.path == "name" and "invisible" in problem.message
    assert "\\u202e" in problem.message and not hidden_in(problem.message)


def test_tags_lose_them_and_one_of_nothing_else_is_refused() -> None:
    assert parse_spec({**SPEC, "name": "run", "tags": ["a\u202eb", "\x1b[31m"]}).tags == ["ab", "[31m"]
    with pytest.raises(SpecError, match=r"tags\.1: must have characters that can be seen"):
        parse_spec({**SPEC, "name": "run", "tags": ["a", "\u200b"]})
