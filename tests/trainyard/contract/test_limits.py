"""What a node says at too great length is cut, and says so; cutting twice changes nothing."""

from __future__ import annotations

from trainyard.contract.base import encode, to_builtins
from trainyard.contract.limits import MAX_EVIDENCE, MAX_SENTENCE, MAX_TEXT, bounded, cut
from trainyard.contract.reports import RankError, Reason


def test_a_sentence_is_cut_with_an_ellipsis_and_the_number_of_what_is_missing() -> None:
    found = Reason("refused", "x" * 1_500_000).sentence
    assert len(found) <= MAX_SENTENCE
    assert found.endswith("x… (1,496,060 more characters)")
    assert cut(found) == found and cut("short") == "short"


def test_the_end_of_a_traceback_is_kept() -> None:
    error = RankError("E" * 500, "m" * 10_000, "frame\n" * 10_000 + "ValueError: the last line")
    assert error.traceback is not None and error.traceback.endswith("ValueError: the last line")
    assert len(encode(error)) < MAX_SENTENCE + 2 * MAX_TEXT


def test_evidence_is_bounded_as_a_whole_however_it_is_built() -> None:
    for hostile in (
        {"stderr": ["x" * 30_000] * 5_000},
        {str(number): {"a": list(range(5_000))} for number in range(5_000)},
        {"a" * 1_000_000: "x"},
        {"killed": list(range(1_000_000))},
    ):
        reason = Reason("x", "y", evidence=hostile)
        assert reason.evidence is not None and len(encode(reason)) < 4 * MAX_EVIDENCE
        assert bounded(to_builtins(reason.evidence)) == reason.evidence
    assert "more lines" in bounded({"stderr": ["x"] * 5_000})["stderr"][-1]
    sound = {"node": "a", "rank": 0, "stderr": ["Traceback", "x"], "error": None, "numbers": [1, 2.5, True]}
    assert bounded(sound) == sound
