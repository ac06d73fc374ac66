"""``/runs/{id}/ranks``: what the heat map draws, the scores, and going on without a node."""

from __future__ import annotations

import pytest
from django.utils import timezone

from runs.life.watching.slow_ranks import SlowRankWatch
from runs.models import Attempt
from runs.values.status import Status
from tests.cast import Cast, make_node, make_run
from tests.runs.api.conftest import Api
from tests.runs.life.watching.test_slow_ranks import log, two_nodes

pytestmark = pytest.mark.django_db(databases="__all__")


def test_the_grid_has_a_row_for_each_rank_with_its_node(cast: Cast, mate: Api) -> None:
    attempt = two_nodes(cast)
    log(attempt, 1, steps=300)
    answer = mate("GET", f"/runs/{attempt.run_id}/ranks/grid?phase=forward&columns=100")
    assert answer.status_code == 200, answer.content
    found = answer.json()
    assert [one["node"] for one in found["ranks"]] == ["node-a", "node-a", "node-b", "node-b"]
    assert (found["first_step"], found["width"]) == (0, 4)
    assert len(found["microseconds"]) == 4 and len(found["microseconds"][0]) == 76
    own, step = (
        mate("GET", f"/runs/{attempt.run_id}/ranks/grid?phase={phase}").json()["microseconds"][2][5]
        for phase in ("own", "step")
    )
    assert step > own > found["microseconds"][2][1] / 2


def test_an_empty_run_has_an_empty_grid_and_a_strange_phase_is_refused(cast: Cast, mate: Api) -> None:
    run = make_run(cast)
    assert mate("GET", f"/runs/{run.pk}/ranks/grid").json()["ranks"] == []
    assert mate("GET", f"/runs/{run.pk}/ranks/grid?phase=lunch").status_code == 422
    assert mate("GET", f"/runs/{run.pk}/ranks/scores").json() == {
        "attempt": None,
        "step": None,
        "scores": [],
        "slow": [],
    }


def test_the_scores_name_the_slow_rank_with_a_sentence(cast: Cast, mate: Api) -> None:
    attempt = two_nodes(cast)
    telemetry = log(attempt, 1, slow=3)
    SlowRankWatch().judge(attempt, telemetry, timezone.now())
    found = mate("GET", f"/runs/{attempt.run_id}/ranks/scores").json()
    assert max(found["scores"], key=lambda one: one["relative"])["rank"] == 3
    (slow,) = found["slow"]
    assert (slow["rank"], slow["node"], slow["phase"]) == (3, "node-b", "forward")
    assert slow["sentence"].startswith("Rank 3 on node-b has been ")


def test_a_node_is_excluded_over_rest(cast: Cast, mate: Api) -> None:
    attempt = two_nodes(cast)
    assert mate("POST", f"/runs/{attempt.run_id}/exclude-node", {"node": "node-b"}).status_code == 409
    make_node(cast.cluster, "node-c")
    answer = mate("POST", f"/runs/{attempt.run_id}/exclude-node", {"node": "node-b"})
    assert answer.status_code == 200, answer.content
    assert answer.json()["status"] == Status.STOPPING
    assert [one["node"] for one in answer.json()["restarts"]["left_out"]] == ["node-b"]
    assert Attempt.objects.get(pk=attempt.pk).is_replaced
