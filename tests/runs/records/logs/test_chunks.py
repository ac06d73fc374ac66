from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.records.logs.chunks import (
    BYTES_PER_CHUNK,
    LINES_PER_CHUNK,
    Columns,
    Texts,
    cuts,
    decode_columns,
    decode_texts,
    encode_columns,
    encode_texts,
    encoded,
    placed,
)
from runs.records.metrics.codec import BadSegment


@given(st.lists(st.text(), min_size=1))
def test_any_texts_come_back_exactly(lines: list[str]) -> None:
    stored = [encoded(line) for line in lines]
    texts = decode_texts(encode_texts(stored))
    assert [texts.text(number) for number in range(len(lines))] == [line.replace("\n", "\u2424") for line in lines]


@pytest.mark.parametrize("size", [1, 8, 9, 5000])
def test_columns_come_back_exactly(size: int) -> None:
    numbers = np.random.default_rng(size)
    columns = Columns(
        numbers.normal(1.7e9, 1e3, size), numbers.integers(0, 5, size).astype(np.uint8), np.arange(size) // 3
    )
    back = decode_columns(encode_columns(columns))
    assert all(np.array_equal(one, other) for one, other in zip(columns, back, strict=True))
    with pytest.raises(ValueError, match="read-only"):
        back.times[0] = 1.0


@pytest.mark.parametrize("data", [b"", b"\x01rubbish", b"\x02\xff\xff\xff\xff", b"\x02\x00\x00\x00\x00"])
def test_what_is_no_chunk_is_refused(data: bytes) -> None:
    with pytest.raises(BadSegment):
        decode_columns(data)
    with pytest.raises(BadSegment):
        decode_texts(data)


def test_half_a_letter_that_is_none_is_stored_as_a_question() -> None:
    assert encoded("a\ud800b") == b"a?b"


def test_lines_are_found_by_their_bytes() -> None:
    texts = Texts(b"ab\n\ncd")
    assert [texts.line_at(offset) for offset in range(7)] == [0, 0, 0, 1, 2, 2, 2]
    assert [texts.line(number) for number in range(3)] == [b"ab", b"", b"cd"]


def test_a_clock_that_goes_back_does_not_turn_lines_round() -> None:
    assert placed(np.array([3.0, 1.0, 5.0, 4.0]), 3.0).tolist() == [3.0, 3.0, 5.0, 5.0]
    assert placed(np.array([3.0, 1.0, 5.0]), 4.0).tolist() == [4.0, 4.0, 5.0]


def test_chunks_are_cut_by_lines_and_by_bytes() -> None:
    assert cuts([]) == [0]
    assert cuts([1] * 10) == [0, 10]
    assert cuts([1] * (LINES_PER_CHUNK + 1)) == [0, LINES_PER_CHUNK, LINES_PER_CHUNK + 1]
    assert cuts([10, BYTES_PER_CHUNK + 1, 10]) == [0, 1, 2, 3]
