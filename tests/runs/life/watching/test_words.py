from __future__ import annotations

from runs.life.watching.slow_ranks import over_sentence, slow_sentences
from runs.values.columns import SlowRank


def slow(rank: int, **changes: object) -> SlowRank:
    found = SlowRank(rank=rank, node="node-b", times=1.8, phase="forward", excess_s=0.01, since_step=1, last_step=120)
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def test_a_slow_rank_is_described_with_its_node_phase_and_length() -> None:
    sentence = "Rank 3 on node-b has been 1.8 times as slow as the others in its forward pass for 120 steps."
    assert slow_sentences([slow(3)], num_ranks=8) == [sentence]
    (two,) = slow_sentences([slow(1)], num_ranks=2)
    assert two.startswith("Rank 1 on node-b has been 1.8 times as slow as the other in")


def test_slow_ranks_of_one_node_share_a_sentence_and_those_of_others_have_their_own() -> None:
    found = slow_sentences([slow(2), slow(3), slow(5, node="node-c", phase="")], num_ranks=8)
    assert found == [
        "Ranks 2 and 3 on node-b have been 1.8 times as slow as the others in their forward passes for 120 steps.",
        "Rank 5 on node-c has been 1.8 times as slow as the others in its own work for 120 steps.",
    ]


def test_a_ratio_to_almost_nothing_is_said_as_a_time() -> None:
    (sentence,) = slow_sentences([slow(0, phase="data", times=4000.0, excess_s=0.05)], num_ranks=4)
    assert sentence == "Rank 0 on node-b has been 50 ms slower than the others in reading its data for 120 steps."


def test_the_end_is_said_too() -> None:
    assert over_sentence([slow(3)], num_ranks=8) == "Rank 3 on node-b keeps up with the others again."
    assert over_sentence([slow(2), slow(3)], num_ranks=8) == "Ranks 2 and 3 on node-b keep up with the others again."
