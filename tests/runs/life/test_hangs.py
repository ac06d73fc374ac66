"""Who is blamed for a hang, from what all ranks report."""

from __future__ import annotations

import pytest

from runs.life.hangs import RankView, find_hang
from trainyard.contract.causes import HangKind
from trainyard.contract.reports import PendingCollective, RankStall
from trainyard.spec.sections.hangs import HangRules

RULES = HangRules(None, "restart")


def waiting(sequence: int = 412, *, over: bool = True, operation: str = "all_reduce", sends_to: str = "") -> RankStall:
    pending = PendingCollective(operation=operation, group="0", ranks=[0, 1], sequence=sequence)
    return RankStall(
        since=0.0,
        limit_s=60.0,
        is_over=over,
        step=137,
        collective=pending,
        line="train.py line 84",
        unacknowledged=[sends_to] if sends_to else [],
    )


def stopped(*, over: bool = True) -> RankStall:
    return RankStall(since=0.0, limit_s=15.0, is_over=over, is_stopped=True, step=137)


def idle(*, over: bool = True) -> RankStall:
    return RankStall(since=0.0, limit_s=60.0, is_over=over, step=137, phase="forward", line="train.py line 12")


def ranks(*stalls: RankStall | None) -> list[RankView]:
    return [RankView(number, f"local-{number + 1}", stall) for number, stall in enumerate(stalls)]


def test_a_node_is_lost_where_the_server_and_another_rank_both_miss_it() -> None:
    views = ranks(waiting(over=False), waiting(over=False, sends_to="10.0.0.3:29500"), None)
    finding = find_hang(views, RULES, silent=["local-3"])
    assert finding is not None and finding.acts and finding.is_of_lost_node
    assert (finding.node, finding.code) == ("local-3", "node_lost")
    assert finding.sentence == (
        "Node local-3 is out of contact, and nobody acknowledges what rank 1 on local-2 sends to 10.0.0.3:29500."
    )
    waited = find_hang(ranks(waiting(), waiting(), None), RULES, silent=["local-3"])
    assert waited is not None and waited.sentence == (
        "Node local-3 is out of contact, and rank 0 on local-1 has waited in all_reduce for more than 60 s."
    )


@pytest.mark.parametrize(
    ("stalls", "silent"),
    [
        ((waiting(over=False), waiting(over=False), None), ["local-3"]),  # it may be at work
        ((waiting(), None, None), ["local-3"]),  # local-2 is not waiting
        ((waiting(over=False, sends_to="10.0.0.3:1"), waiting(over=False), None), []),  # it is in contact
        ((None, None, None), ["local-1", "local-2", "local-3"]),
    ],
)
def test_silence_alone_is_no_proof(stalls: tuple[RankStall | None, ...], silent: list[str]) -> None:
    assert find_hang(ranks(*stalls), RULES, silent=silent) is None


def test_a_run_that_outlives_its_workers_is_not_ended_for_a_silent_node() -> None:
    views = ranks(waiting(over=False, sends_to="10.0.0.3:29500"), None)
    assert find_hang(views, RULES, silent=["local-2"], outlives_workers=True) is None


@pytest.mark.parametrize(
    ("stalls", "kind", "rank", "sentence"),
    [
        (
            (waiting(), stopped()),
            HangKind.STOPPED,
            1,
            "Rank 1 on local-2 is stopped (SIGSTOP) at step 137; rank 0 waits for it in all_reduce (train.py line 84).",
        ),
        ((None, stopped()), HangKind.STOPPED, 1, "Rank 1 on local-2 is stopped (SIGSTOP) at step 137."),
        (
            (waiting(), idle()),
            HangKind.NOT_ENTERED,
            1,
            "Rank 1 on local-2 has not entered all_reduce, in which rank 0 waits (train.py line 84), for more than "
            "60 s: it is in step 137 (forward), at train.py line 12.",
        ),
        (
            (idle(),),
            HangKind.NO_STEP,
            0,
            "Rank 0 on local-1 has made no step for more than 60 s: it is in step 137 (forward), at train.py line 12.",
        ),
        (
            (waiting(), waiting(operation="broadcast")),
            HangKind.MISMATCH,
            1,
            "Rank 1 on local-2 waits in broadcast (train.py line 84), while rank 0 waits in all_reduce "
            "(train.py line 84): they wait for each other.",
        ),
        (
            (waiting(412, over=False, sends_to="10.0.0.2:4242"), waiting(413)),
            HangKind.NETWORK,
            None,
            "Every rank waits in a collective, rank 0 on local-1 in all_reduce (train.py line 84), and nobody "
            "acknowledges what it sends to 10.0.0.2:4242: the network between local-1 and local-2 is cut.",
        ),
        (
            (waiting(412), waiting(413)),  # one has got its data, and what it sent has not arrived
            HangKind.NETWORK,
            None,
            "Every rank waits in all_reduce (train.py line 84), and for more than 60 s nothing arrives: the network "
            "between local-1 and local-2 carries none of the ranks' data.",
        ),
    ],
)
def test_the_rank_that_others_wait_for_is_named(
    stalls: tuple[RankStall, ...], kind: HangKind, rank: int | None, sentence: str
) -> None:
    found = find_hang(ranks(*stalls), RULES)
    assert found is not None
    assert (found.kind, found.rank, found.sentence, found.acts) == (kind, rank, sentence, True)


@pytest.mark.parametrize(
    "stalls",
    [
        (None, None),
        (waiting(), None),  # the other one validates or saves: it is not reported before half of its longer limit
        (waiting(), idle(over=False)),
        (waiting(), waiting(over=False)),
        (waiting(),),  # it waits for nobody who is there
    ],
)
def test_a_wait_for_a_rank_that_is_at_work_is_no_hang(stalls: tuple[RankStall | None, ...]) -> None:
    assert find_hang(ranks(*stalls), RULES) is None


def test_a_stopped_rank_is_named_before_it_is_ended() -> None:
    found = find_hang(ranks(waiting(over=False), stopped(over=False)), RULES)
    assert found is not None and not found.acts


def test_notify_ends_nothing() -> None:
    found = find_hang(ranks(waiting(), stopped()), HangRules(None, "notify"))
    assert found is not None and not found.acts


def test_a_run_that_goes_on_without_a_worker_is_not_ended_for_it() -> None:
    found = find_hang(ranks(None, stopped()), RULES, outlives_workers=True)
    assert found is not None and not found.acts
    found = find_hang(ranks(stopped(), None), RULES, outlives_workers=True)
    assert found is not None and found.acts


def test_a_rank_outside_of_the_group_is_not_said_to_be_missing_in_it() -> None:
    views = [*ranks(waiting(), waiting()), RankView(2, "local-3", idle())]
    found = find_hang(views, RULES)
    assert found is not None
    assert (found.kind, found.rank) == (HangKind.NO_STEP, 2)


def test_the_stack_of_the_blamed_rank_comes_first() -> None:
    found = find_hang(ranks(waiting(), idle()), RULES)
    assert found is not None
    assert [(one.rank, one.state) for one in found.stacks] == [
        (1, "is at train.py line 12"),
        (0, "waits in all_reduce at train.py line 84"),
    ]


def test_ranks_of_one_node_that_wait_for_nobody_are_not_blamed_on_the_network() -> None:
    found = find_hang([RankView(0, "one", waiting()), RankView(1, "one", waiting())], RULES)
    assert found is not None
    assert (found.kind, found.code) == (HangKind.NO_STEP, "hang")
    assert found.sentence.endswith("nothing arrives, though none is missing.")
