"""The values of secrets never leave a masker, however the output is cut."""

from __future__ import annotations

import base64
import random
from urllib.parse import quote

from workers.secrets.masking import Masker, masked_text, patterns_of


def masked(values: list[str], *parts: bytes) -> bytes:
    masker = Masker(patterns_of(values))
    return b"".join(masker.mask(part) for part in parts) + masker.flush()


def test_a_value_is_masked_also_where_it_comes_in_two_writes() -> None:
    assert masked(["hunter22"], b"token hunter22!\n") == b"token ***!\n"
    for cut in range(1, 8):
        data = b"a hunter22 b"
        assert masked(["hunter22"], data[: 2 + cut], data[2 + cut :]) == b"a *** b"


def test_what_only_begins_like_a_value_comes_out_whole() -> None:
    assert masked(["hunter22"], b"hunt", b"ing\n", b"hunter2") == b"hunting\nhunter2"
    masker = Masker(patterns_of(["hunter22"]))
    assert masker.mask(b"loss 0.5\n") == b"loss 0.5\n"  # nothing waits that need not


def test_a_value_that_begins_like_a_shorter_one_is_masked_whole() -> None:
    assert masked(["password1", "password123"], b"x password1", b"23 y") == b"x *** y"
    assert masked(["password1", "password123"], b"x password1", b" y") == b"x *** y"


def test_lines_and_other_spellings_are_masked() -> None:
    value = "-----BEGIN KEY-----\nMIIEabcdefgh\n-----END KEY-----"
    assert b"MIIEabcdefgh" not in masked([value], b"line: MIIEabcdefgh\n")
    odd = 'p@ss "w\u00f6rd"/+='
    spellings = (odd, base64.b64encode(odd.encode()).decode(), quote(odd, safe=""), repr(odd)[1:-1])
    for text in spellings:
        assert masked([odd], f"<{text}>".encode()) == b"<***>"


def test_short_values_are_not_masked() -> None:
    assert masked(["abc"], b"abc abc") == b"abc abc"
    assert masked_text("bad token hunter22", ["hunter22"]) == "bad token ***"


def test_no_value_is_left_whichever_way_the_output_is_cut() -> None:
    draw = random.Random(7)
    for _ in range(400):
        values = ["".join(draw.choices("ab", k=draw.randint(4, 9))) for _ in range(draw.randint(1, 4))]
        data = "".join(draw.choices("aabbc", k=80)).encode()
        cuts = sorted(draw.sample(range(81), 20))
        out = masked(values, *(data[first:last] for first, last in zip([0, *cuts], [*cuts, 80], strict=True)))
        assert not any(value.encode() in out for value in values)
