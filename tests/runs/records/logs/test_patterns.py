from __future__ import annotations

import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.records.logs.chunks import Texts, encoded
from runs.records.logs.patterns import FOLDING, MAX_SPANS, BadPattern, Pattern, literal, regex

LINES = ["Loss is NaN", "", "loss 0.5", "die Straße", "İSTANBUL", "ПРИВЕТ мир", "🙂 smile", "ﬁne \u212a", "a\tb"]


def found(pattern: Pattern, lines: list[str] = LINES, first: int = 0) -> list[str]:
    texts = Texts(b"\n".join(encoded(line) for line in lines))
    return [texts.text(number) for number in pattern.lines(texts, first)]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("LOSS", ["Loss is NaN", "loss 0.5"]),
        ("strasse", ["die Straße"]),
        ("STRAẞE", ["die Straße"]),
        ("ß", ["Loss is NaN", "loss 0.5", "die Straße"]),
        ("İstanbul", ["İSTANBUL"]),
        ("stanbul", ["İSTANBUL"]),
        ("привет", ["ПРИВЕТ мир"]),
        ("🙂", ["🙂 smile"]),
        ("fine k", ["ﬁne \u212a"]),
        (".", ["loss 0.5"]),
        ("nothing", []),
    ],
)
def test_a_text_is_found_in_any_case(text: str, lines: list[str]) -> None:
    assert found(literal(text, is_case=False)) == lines


def test_a_text_is_found_exactly() -> None:
    assert found(literal("Loss", is_case=True)) == ["Loss is NaN"]
    assert found(literal("ПРИВЕТ", is_case=True)) == ["ПРИВЕТ мир"]
    assert found(literal("привет", is_case=True)) == []
    assert found(literal("(.*", is_case=True)) == []


@given(st.lists(st.text(max_size=12), min_size=1, max_size=8), st.text(min_size=1, max_size=3), st.integers(0, 7))
def test_in_any_case_means_what_casefold_means(lines: list[str], text: str, first: int) -> None:
    lines = [encoded(line).decode() for line in lines]
    text = encoded(text).decode()
    wanted = [line for line in lines[first:] if text.casefold() in line.casefold()]
    assert found(literal(text, is_case=False), lines, first) == wanted


@pytest.mark.parametrize("is_case", [True, False])
def test_a_text_with_a_line_feed_is_found_within_a_line_and_never_across_two(is_case: bool) -> None:
    pattern = literal("o\nb", is_case=is_case)
    assert found(pattern, ["foo", "bar", "foo\nbar"]) == ["foo\u2424bar"]
    assert pattern.spans("foo\u2424bar") == [(2, 5)]


def test_no_other_letter_folds_to_an_ascii_letter() -> None:
    known = "".join(
        chr(code) for code in range(128, sys.maxunicode + 1) if any(letter.isascii() for letter in chr(code).casefold())
    )
    assert sorted(known) == sorted(FOLDING)


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("^loss", ["Loss is NaN", "loss 0.5"]),
        ("5$", ["loss 0.5"]),
        (r"\A[ld].*\z", ["Loss is NaN", "loss 0.5", "die Straße"]),
        ("^$", [""]),
        ("nan|smile", ["Loss is NaN", "🙂 smile"]),
        (r"NaN\s", []),
        (r"NaN[^x]", []),
        (r"(?s)NaN.*loss", []),
        (r"\n", []),
        (r"\Q0.5\E", ["loss 0.5"]),
        (r"\Q\A\E", []),
        (r"\\A", []),
        ("^.. smile", []),
        ("^. smile", ["🙂 smile"]),
    ],
)
def test_an_expression_is_sought_line_by_line(source: str, lines: list[str]) -> None:
    assert found(regex(source, is_case=False)) == lines


def test_an_expression_that_fits_everywhere_has_every_line_once() -> None:
    assert found(regex("x*", is_case=True)) == LINES
    assert regex("x*", is_case=True).spans("axxb") == [(1, 3)]


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("(", "missing )"),
        ("a**", "bad repetition operator"),
        ("(?=a)", "invalid perl operator"),
        (r"\1", "invalid escape sequence"),
        ("[z-a]", "invalid character class range"),
        ("x{1001}", "invalid repetition size"),
        (r"(\pL{30}){10}", "too large"),
    ],
)
def test_what_is_no_expression_is_refused_with_the_reason(source: str, why: str) -> None:
    with pytest.raises(BadPattern, match=why.replace(")", r"\)")):
        regex(source, is_case=False)


@pytest.mark.parametrize("source", ["(a+)+$", "(a|aa)+z", "(x+x+)+y", ".*.*.*.*=q", "(?:.*a){20}q", "(a?){100}a{100}z"])
def test_no_expression_explodes(source: str) -> None:
    pattern = regex(source, is_case=True)
    began = time.process_time()
    found(pattern, ["a" * 60_000] * 8)
    assert time.process_time() - began < 2


def test_spans_are_in_characters_and_not_without_end() -> None:
    assert literal("b", is_case=False).spans("äB🙂b") == [(1, 2), (3, 4)]
    assert literal("ss", is_case=False).spans("Straße") == [(4, 5)]
    assert literal("Ä", is_case=True).spans("aÄ") == [(1, 2)]
    assert regex("🙂.", is_case=True).spans("ä🙂ö") == [(1, 3)]
    assert len(literal("a", is_case=False).spans("a" * 1000)) == MAX_SPANS
    assert len(regex("a", is_case=False).spans("a" * 1000)) == MAX_SPANS
