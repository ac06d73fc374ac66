from __future__ import annotations

import pytest

from runs.ingest import troubles


def test_what_lost_something_is_told_first_and_what_did_not_happen_is_not_told() -> None:
    told = troubles.described({"repeated": 1, "gap": 0, "lost_points": 12_345})
    assert [(item.code, item.count) for item in told] == [("lost_points", 12_345), ("repeated", 1)]
    assert told[0].sentence.startswith("12,345 points were lost")
    assert told[1].sentence.startswith("1 record came again")


@pytest.mark.parametrize("code", troubles.SENTENCES)
def test_one_and_many_read_as_sentences(code: str) -> None:
    for count in (1, 2_000):
        sentence = troubles.sentence(code, count)
        assert sentence[0].isupper() or sentence[0].isdigit()
        assert sentence.endswith(".") and "{" not in sentence
        assert count == 1 or "2,000" in sentence


def test_every_code_that_a_producer_may_tell_has_a_sentence() -> None:
    assert troubles.SENTENCES.keys() > {troubles.LOST_POINTS, troubles.BAD_VALUES, troubles.SPOOL_LIMIT}


def test_a_code_that_nobody_knows_is_not_shown() -> None:
    assert troubles.described({"made_up": 3}) == []
    with pytest.raises(KeyError):
        troubles.sentence("made_up", 3)


def test_counts_add_up() -> None:
    assert troubles.added({"gap": 1}, {"gap": 2, "repeated": 0, "lost_points": 5}) == {"gap": 3, "lost_points": 5}
