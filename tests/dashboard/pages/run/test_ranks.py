from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from runs.models import Attempt, Run, User
from runs.records.metrics.progress import ReportedFact, write_facts
from runs.values.columns import SlowRank
from runs.values.status import Phase, Status
from tests.cast import Cast, make_attempt, make_node, spec
from tests.series import write_series
from trainyard.contract.base import to_builtins
from trainyard.spec import parse_spec

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
MakeRun = Callable[..., Run]


def told(forward: float, communication: float, **changes: Any) -> dict[str, Any]:
    phases = {"data": 0.001, "forward": forward, "backward": 2 * forward, "communication": communication}
    return {
        "step": 1240,
        "num_steps": 50,
        "step_time_s": 3 * forward + communication,
        "phases": {**phases, "optimizer": 0.01, "checkpoint": 0.0},
        "memory_bytes": 300 * 2**20,
        "peak_memory_bytes": 512 * 2**20,
        "sent_bytes": 3 * 2**20,
        "rows": 16,
        "flops_per_step": 1e9,
        "mfu": 0.384,
        **changes,
    }


def measured(attempt: Attempt, *ranks: dict[str, Any]) -> None:
    items = [(rank, ReportedFact("measured", data, time.time())) for rank, data in enumerate(ranks)]
    write_facts(attempt.run_id, attempt=attempt.fence, items=items)


@pytest.fixture
def attempt(cast: Cast, make_run: MakeRun) -> Attempt:
    """A run on two ranks of two nodes, whose shares of the batch could be balanced."""
    run = make_run(status=Status.RUNNING, spec=parse_spec(spec(resources={"nodes": 2})).resolved())
    nodes = [make_node(cast.cluster, "node-a"), make_node(cast.cluster, "node-b")]
    return make_attempt(run, nodes, phase=Phase.RUNNING)


def page(cast: Cast, as_user: AsUser, attempt: Attempt) -> str:
    answer = as_user(cast.viewer).get(f"/runs/{attempt.run_id}/ranks/")
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", answer.content.decode())


def test_each_rank_has_a_bar_of_its_phases_in_words_too(cast: Cast, as_user: AsUser, attempt: Attempt) -> None:
    measured(attempt, told(0.1, 0.089), told(0.1, 0.089))
    text = page(cast, as_user, attempt)
    assert "mean of 50 steps up to step 1,240" in text
    assert (
        'aria-label="Rank 1: Data 1 ms, 0.25 %; Forward 100 ms, 25 %; Backward 200 ms, 50 %; '
        'Communication 89 ms, 22 %; Optimizer 10 ms, 2.5 %"'
    ) in text
    for words in ("389 ms", "22 %", "512 MiB", "3.0 MiB", "38 %"):
        assert words in text
    assert "parallel.balance" not in text and ">slow<" not in text and ">Rows<" not in text


def test_who_keeps_the_others_waiting_is_named_with_what_helps(cast: Cast, as_user: AsUser, attempt: Attempt) -> None:
    attempt.slow_ranks = to_builtins([SlowRank(rank=1, node="node-b", times=2.1, since_step=1_000, last_step=1_240)])
    attempt.save()
    measured(attempt, told(0.1, 0.34), told(0.21, 0.01))
    text = page(cast, as_user, attempt)
    assert "Rank 1 on node-b has been 2.1 times as slow as the other in its own work for 241 steps." in text
    assert "With parallel.balance speed, slower ranks get fewer rows of the batch." in text
    assert text.count('<span class="tag">slow</span>') == 1


def test_shares_of_the_batch_are_shown_where_they_differ(cast: Cast, as_user: AsUser, attempt: Attempt) -> None:
    measured(attempt, told(0.1, 0.02, rows=21), told(0.1, 0.02, rows=11))
    text = page(cast, as_user, attempt)
    assert ">Rows<" in text and '<td class="num">21</td>' in text and '<td class="num">11</td>' in text


def test_a_rank_whose_device_is_unknown_has_no_mfu(cast: Cast, as_user: AsUser, attempt: Attempt) -> None:
    measured(attempt, told(0.1, 0.02, mfu=None))
    assert '<td class="num nowrap">–</td>' in page(cast, as_user, attempt)


@pytest.mark.parametrize("data", [{}, {"phases": None}, {"phases": 3}])
def test_facts_of_another_shape_draw_nothing(
    cast: Cast, as_user: AsUser, attempt: Attempt, data: dict[str, Any]
) -> None:
    measured(attempt, data)
    assert "Steps by phase" not in page(cast, as_user, attempt)


def test_the_head_says_how_well_the_devices_are_used(cast: Cast, as_user: AsUser, attempt: Attempt) -> None:
    write_series(attempt.run, "train/tokens_per_second", [12_000.0, 12_400.0])
    assert "MFU" not in page(cast, as_user, attempt).partition("</header>")[0].rpartition("<header")[2]
    write_series(attempt.run, "train/mfu", [0.2, 0.384])
    text = page(cast, as_user, attempt)
    assert "<b>12.4k tok/s</b>" in text and "MFU <b>38 %</b>" in text


def test_what_a_script_tells_under_that_name_breaks_no_page(cast: Cast, as_user: AsUser, attempt: Attempt) -> None:
    script = {"name": "own", "task": {"script": "train.py", "code": "."}, "resources": {"nodes": 2}}
    Run.objects.filter(pk=attempt.run_id).update(spec=parse_spec(script).resolved())
    measured(attempt, told(0.1, 0.1, phases={"forward": "long"}, step="last", rows=[]), told(0.1, 0.1))
    assert "Rank 1: Data" not in page(cast, as_user, attempt)
