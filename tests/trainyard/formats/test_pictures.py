"""What the first bytes of a file say of an image, whoever wrote them."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard.formats.pictures import format_of, png, size_of

STARTS = {
    "png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "jpeg": b"\xff\xd8\xff",
    "gif": b"GIF89a",
    "webp lossy": b"RIFF\0\0\0\0WEBPVP8 ",
    "webp lossless": b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f",
    "webp extended": b"RIFF\0\0\0\0WEBPVP8X",
}


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 300), (300, 1), (17, 31)])
def test_a_png_says_how_large_it_is(height: int, width: int, channels: int) -> None:
    data = png(np.random.default_rng(0).bytes(height * width * channels), width, height, channels)
    assert (format_of(data), size_of(data)) == ("png", (width, height))


@pytest.mark.parametrize("start", STARTS)
@given(rest=st.binary(max_size=200))
def test_any_bytes_have_a_size_or_none(start: str, rest: bytes) -> None:
    for length in {0, 1, len(rest) // 2, len(rest)}:
        size = size_of(STARTS[start] + rest[:length])
        assert size is None or min(size) > 0


@given(data=st.binary(max_size=100))
def test_what_is_no_image_is_none(data: bytes) -> None:
    assert format_of(b"<" + data) == "" and size_of(b"<" + data) is None


@pytest.mark.parametrize("filling", [b"\xff", b"\xff\x01", b"\xff\xe0\x00\x02"], ids=["padding", "markers", "segments"])
def test_a_file_that_goes_on_for_ever_is_not_read_to_its_end(filling: bytes) -> None:
    started = time.process_time()
    assert size_of(b"\xff\xd8" + filling * (1_000_000 // len(filling))) is None
    assert time.process_time() - started < 0.05
