"""The values of secrets never leave a masker, however the output is cut."""

from __future__ import annotations

import base64
import itertools
import random
from urllib.parse import quote

from workers.secrets import Masker, masked_text, patterns_of


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


def test_a_value_within_a_longer_text_in_base64_or_hex_is_masked_wherever_it_begins() -> None:
    """As an address with a password in it, or an HTTP header, that a library prints."""
    value = "s3cr3t?>~hunter22"
    for before, after in itertools.product(("", "u", "us", "user:", "user:1"), ("", "@", "@h", "@host")):
        whole = f"{before}{value}{after}".encode()
        for spelling in (base64.b64encode(whole), base64.urlsafe_b64encode(whole)):
            left = masked([value], b"<" + spelling + b">")
            rest = left.replace(b"***", b"")
            assert left != rest, (before, after, spelling)
            # Six bits a character: at each end one that the value shares with what stands beside it may be left.
            assert len(rest.strip(b"<>=")) <= len(spelling.strip(b"=")) - len(value) * 8 // 6 + 1
        for spelling in (whole.hex().encode(), whole.hex().upper().encode()):
            assert value.encode().hex().encode() not in masked([value], spelling).lower()


def test_what_is_too_short_to_be_the_value_is_left_in_base64_and_hex() -> None:
    coded = base64.b64encode(b"xabcdx") + b" 61626364"
    assert masked(["abcd"], coded) == coded[:9] + b"***", "its hexadecimal digits are long enough, the others are not"


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
