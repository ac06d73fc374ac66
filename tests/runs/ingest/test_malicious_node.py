"""A node that was let in, and turns against the others: what it appends to the stream, which all nodes share."""

from __future__ import annotations

import pytest
from redis.exceptions import ResponseError

from runs.models import Placement, Run
from runs.records.logs.read import read_logs
from runs.records.metrics.models import DeadLetter, Producer
from runs.serving import node_troubles
from runs.serving.transport import redis
from tests.cast import make_attempt, make_node
from tests.runs.ingest.conftest import Stage, drain
from tests.spools import Spool, send, some_points
from trainyard.contract.seals import EPOCH_KEY, frames_scope, mac, stream_key

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")

LAST_ID = f"{2**64 - 1}-{2**64 - 1}"


def spool() -> Spool:
    made = Spool()
    made.begin()
    made.points(some_points(1, 5))
    return made


@pytest.mark.parametrize("last", [LAST_ID, f"{2**64 - 1}-0"])
def test_a_node_that_takes_the_streams_last_id_keeps_nobody_from_sending(stage: Stage, last: str) -> None:
    drain(stage.consumer)
    epoch = redis().get(EPOCH_KEY)
    redis().xadd(stream_key(0), {"n": "attacker", "d": b""}, id=last)
    if last == LAST_ID:
        with pytest.raises(ResponseError):
            send(stage.attempt, stage.node, b"")
    drain(stage.consumer)
    assert redis().get(EPOCH_KEY) != epoch, "what could not be sent meanwhile comes again"
    send(stage.attempt, stage.node, spool().bytes)
    drain(stage.consumer)
    assert stage.steps() == [1, 2, 3, 4, 5]


def test_frames_of_another_node_are_not_sent_again_under_ones_own_name(stage: Stage) -> None:
    """A placed node copies what it saw of another run: sealed by itself, for its own attempt, and for the other's."""
    attacker = make_node(stage.node.cluster)
    mine = make_attempt(Run.objects.create(**own_values(stage.run)), [attacker])
    frames = spool().bytes
    send(stage.attempt, stage.node, frames)
    drain(stage.consumer)
    send(mine, attacker, frames, r=stage.run.pk, a=stage.attempt.pk, f=stage.attempt.fence)
    drain(stage.consumer)
    assert "placement" in DeadLetter.objects.get().reason
    (said,) = node_troubles.sentences_of(attacker.pk)
    assert "does not have: 1. Last at" in said and node_troubles.sentences_of(stage.node.pk) == []
    assert Producer.objects.get().run_id == stage.run.pk and stage.steps() == [1, 2, 3, 4, 5]


def test_a_node_speaks_for_no_rank_that_another_node_has(stage: Stage) -> None:
    other = make_node(stage.node.cluster, "other")
    Placement.objects.create(attempt=stage.attempt, node=other, node_rank=1, first_rank=1, num_ranks=1)
    liar, sound = Spool(), Spool()
    liar.begin(rank=1)
    liar.logs([(1.0, "I am rank 1")], rank=1)
    liar.logs([(1.0, "I am rank 0")], rank=0)
    send(stage.attempt, stage.node, liar.bytes)
    sound.begin(rank=1)
    sound.logs([(1.0, "of rank 1")], rank=1)
    send(stage.attempt, other, sound.bytes)
    drain(stage.consumer)
    found = {(line["rank"], line["text"]) for line in read_logs(stage.run.pk)["items"]}
    assert found == {(0, "I am rank 0"), (1, "of rank 1")}
    reasons = {letter.reason for letter in DeadLetter.objects.all()}
    assert reasons == {"rank 1 is not of this node, which has 0 to 0"} and DeadLetter.objects.count() == 2


def test_the_same_entry_again_and_one_whose_seal_is_for_another_fence_change_nothing(stage: Stage) -> None:
    frames = spool().bytes
    for _ in range(3):  # a replay, byte for byte
        send(stage.attempt, stage.node, frames)
    scope = frames_scope(stage.node.pk, stage.run.pk, stage.attempt.fence + 1)
    send(stage.attempt, stage.node, frames, m=mac(stage.node.key, scope, frames))
    drain(stage.consumer)
    assert stage.steps() == [1, 2, 3, 4, 5]
    assert DeadLetter.objects.count() == 1


def own_values(run: Run) -> dict[str, object]:
    names = ("project", "cluster", "name", "spec", "created_by", "reason_code", "reason_sentence")
    return {name: getattr(run, name) for name in names}
