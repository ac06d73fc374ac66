"""The language of filters: what a text asks for, and where it cannot be read."""

from __future__ import annotations

import pytest

from runs.finding.language import (
    MAX_DEPTH,
    MAX_LENGTH,
    MAX_TERMS,
    All,
    Either,
    Expression,
    FieldComparison,
    FilterError,
    FilterText,
    Not,
    Word,
    parse,
)


def shown(part: Expression) -> str:
    """The parts with brackets around each."""
    match part:
        case Word(FilterText(text)):
            return repr(text)
        case Not(inner):
            return f"not {shown(inner)}"
        case All(parts):
            return f"({' & '.join(map(shown, parts))})"
        case Either(parts):
            return f"({' | '.join(map(shown, parts))})"
        case FieldComparison(FilterText(field), operator, values):
            return f"{field} {operator} {', '.join(repr(value.text) for value in values)}"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("status = FAILED and train.learning_rate<1e-3", "(status = 'FAILED' & train.learning_rate < '1e-3')"),
        ("muon paper", "('muon' & 'paper')"),
        ("a or b c or not d", "('a' | ('b' & 'c') | not 'd')"),
        ("(a OR b) AND Not (c)", "(('a' | 'b') & not 'c')"),
        ("summary.val/loss.min < 2 small", "(summary.val/loss.min < '2' & 'small')"),
        ("tag in (a, 'b c')or x", "(tag in 'a', 'b c' | 'x')"),
        ("created > -7d ended<=2026-01-31T12:00:00+02:00", "(created > '-7d' & ended <= '2026-01-31T12:00:00+02:00')"),
        (r"""name ~ "it's \"so\" \\" """, r"""name ~ 'it\'s "so" \\'"""),
        ("don't", '"don\'t"'),
        ('"summary.my loss.min" != none', "summary.my loss.min != 'none'"),
        ('tag = "and" "not"', "(tag = 'and' & 'not')"),
    ],
)
def test_a_text_is_read_as_it_says(text: str, wanted: str) -> None:
    found = parse(text)
    assert found is not None and shown(found) == wanted


def test_an_empty_text_asks_for_nothing() -> None:
    assert parse("") is None and parse(" \n") is None


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("status =", 8, "a value is expected"),
        ("status = FAILED and", 19, "a field or a word is expected"),
        ("a = b = c", 6, "not ="),
        ("= 3", 0, "a field or a word is expected"),
        ("(a or b", 7, "a ) is expected"),
        ("a) b", 1, "closes nothing"),
        ("()", 1, "a field or a word is expected"),
        ("tag in a", 7, "a list in brackets"),
        ("tag in (a b)", 10, "a comma or a )"),
        ("tag in ()", 8, "a value is expected"),
        ('name = "open', 7, "no closing"),
        ("a ! b", 2, "!="),
        ("a, b", 1, "in quotes"),
        ("a or or b", 5, "a field or a word is expected"),
        ("a \0", 2, "NUL"),
        ("x" * (MAX_LENGTH + 1), MAX_LENGTH, "2,001"),
        ("x " * (MAX_TERMS + 1), 2 * MAX_TERMS, "64 words"),
        (f"tag in ({'x,' * MAX_TERMS}x)", 8 + 2 * MAX_TERMS, "64 words"),
        ("(" * (MAX_DEPTH + 1) + "x", MAX_DEPTH + 1, "16 deep"),
        ("not " * (MAX_DEPTH + 1) + "x", 4 * (MAX_DEPTH + 1), "16 deep"),
    ],
)
def test_an_error_points_at_the_character_and_says_what_is_expected(text: str, position: int, words: str) -> None:
    with pytest.raises(FilterError) as refused:
        parse(text)
    assert (refused.value.position, words in refused.value.message) == (position, True), refused.value
