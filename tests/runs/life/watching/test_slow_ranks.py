"""From stored series to the attempt's row, the history, the pages and the policy."""

from __future__ import annotations

import numpy as np
import pytest
from django.utils import timezone

from runs import actions
from runs.actions import Refused
from runs.life.watching.clock import Watcher
from runs.life.watching.scores import OWN, WAITING, series_of
from runs.life.watching.slow_ranks import SlowRankWatch
from runs.models import Attempt, Run
from runs.placing.queue import request_of
from runs.presenting.runs import single_document
from runs.records.metrics.models import Telemetry
from runs.values.status import Phase, Status, Wanted
from tests.cast import Cast, make_attempt, make_node, make_run, spec
from tests.runs.life.watching.measures import measured, noisy, slowed
from tests.series import write_series

pytestmark = pytest.mark.django_db(databases="__all__")


def two_nodes(cast: Cast, **changes: object) -> Attempt:
    """A live attempt of two ranks on each of two nodes."""
    document = spec(resources={"nodes": 2, "processes_per_node": 2}, checkpoint={"every_steps": 100}, **changes)
    run = make_run(cast, spec=document, status=Status.RUNNING, num_nodes=2, slots_per_node=2, accelerator="cpu")
    nodes = [make_node(cast.cluster, name) for name in ("node-a", "node-b")]
    return make_attempt(run, nodes, ranks=2, phase=Phase.RUNNING)


def log(attempt: Attempt, seed: int, *, slow: int | None = None, steps: int = 300) -> Telemetry:
    times = noisy(seed, attempt.world_size, steps)
    if slow is not None:
        times = slowed(times, slow, "forward", 5.0, since=100)
    found = measured(times)
    for name in (*OWN, WAITING):
        for rank in range(attempt.world_size):
            values = found.phases[name][rank].tolist()
            write_series(attempt.run, series_of(name), values, labels={"rank": str(rank)}, attempt=attempt.fence)
    telemetry = Telemetry.objects.get(pk=attempt.run_id)
    telemetry.attempt, telemetry.median_step_s = attempt.fence, 0.5
    telemetry.save()
    return telemetry


def test_a_slow_rank_comes_into_the_history_once_and_its_end_too(cast: Cast) -> None:
    attempt = two_nodes(cast)
    watch, now = SlowRankWatch(), timezone.now()
    telemetry = log(attempt, 1, slow=3)
    assert [one.rank for one in watch.judge(attempt, telemetry, now)] == [3]
    assert watch.judge(attempt, telemetry, now) == []
    (event,) = attempt.run.events.filter(code="straggler")
    assert event.sentence.startswith("Rank 3 on node-b has been ") and "in its forward pass" in event.sentence
    document = single_document(Run.objects.get(pk=attempt.run_id))
    assert [one["code"] for one in document["troubles"]] == ["slow-ranks"]
    go_on(attempt, telemetry, first=301, steps=300)
    assert watch.judge(attempt, telemetry, now) == []
    (over,) = attempt.run.events.filter(code="straggler-over")
    assert over.sentence == "Rank 3 on node-b keeps up with the others again."
    assert Attempt.objects.get(pk=attempt.pk).slow_ranks == []


def test_a_rank_that_was_slow_before_is_named_again_when_it_is_so_for_longer(cast: Cast) -> None:
    """A machine that is slow by fits does not fill the history."""
    attempt = two_nodes(cast)
    watch, now = SlowRankWatch(), timezone.now()
    telemetry = log(attempt, 1, slow=3)
    named = [bool(watch.judge(attempt, telemetry, now))]
    for first, steps, slow in ((301, 300, None), (601, 60, 3), (661, 60, 3), (721, 300, None), (1021, 110, 3)):
        go_on(attempt, telemetry, first=first, steps=steps, slow=slow)
        named.append(bool(watch.judge(attempt, telemetry, now)))
    assert named == [True, False, False, True, False, False]


def go_on(attempt: Attempt, telemetry: Telemetry, *, first: int, steps: int, slow: int | None = None) -> None:
    for name in (*OWN, WAITING):
        for rank in range(attempt.world_size):
            length = (
                0.05 if (name == "forward" and rank == slow) or (name == WAITING and slow not in (None, rank)) else 0.01
            )
            values, label = np.full(steps, length).tolist(), {"rank": str(rank)}
            write_series(attempt.run, series_of(name), values, labels=label, attempt=attempt.fence, first=first)
    telemetry.step, telemetry.cursor = first + steps - 1, telemetry.cursor + 1
    telemetry.save()


def test_equally_fast_ranks_leave_no_trace(cast: Cast) -> None:
    attempt = two_nodes(cast)
    for seed in range(3):
        assert SlowRankWatch().judge(attempt, log(attempt, seed), timezone.now()) == []
    assert attempt.run.events.count() == 0


def test_stages_of_a_pipeline_are_not_compared(cast: Cast) -> None:
    attempt = two_nodes(cast, parallel={"pipeline": {"stages": 4}})
    assert SlowRankWatch().judge(attempt, log(attempt, 1, slow=3), timezone.now()) == []


def test_the_policy_goes_on_without_the_node_where_another_can_take_its_place(cast: Cast) -> None:
    attempt = two_nodes(cast, stragglers={"factor": 1.5, "over": 50, "action": "exclude-node"})
    make_node(cast.cluster, "node-c")
    log(attempt, 1, slow=3)
    Watcher().round(timezone.now())
    run = Run.objects.get(pk=attempt.run_id)
    assert (run.status, run.wanted) == (Status.STOPPING, Wanted.PAUSE)
    assert [one.name for one in run.restarts.left_out] == ["node-b"]
    assert "so the run goes on without node-b" in run.reason_sentence


def test_the_policy_says_why_it_keeps_the_node(cast: Cast) -> None:
    attempt = two_nodes(cast, stragglers={"factor": 1.5, "over": 50, "action": "exclude-node"})
    log(attempt, 1, slow=3)
    Watcher().round(timezone.now())
    (event,) = attempt.run.events.filter(code="straggler-kept")
    assert event.sentence == "The run goes on with node-b: no other node can take the place of node-b now."
    assert Run.objects.get(pk=attempt.run_id).status == Status.RUNNING


def test_a_node_is_excluded_on_request_only_where_that_can_be(cast: Cast) -> None:
    attempt = two_nodes(cast)
    run = attempt.run
    with pytest.raises(Refused, match="does not run on a node node-x"):
        actions.exclude_node(actor=cast.mate, run=run, node="node-x")
    with pytest.raises(Refused, match="No other node"):
        actions.exclude_node(actor=cast.mate, run=run, node="node-a")
    make_node(cast.cluster, "node-c")
    assert request_of(run.pk, run.spec).num_nodes == 2
    actions.exclude_node(actor=cast.mate, run=run, node="node-a")
    assert run.status == Status.STOPPING and Attempt.objects.get(pk=attempt.pk).is_replaced
