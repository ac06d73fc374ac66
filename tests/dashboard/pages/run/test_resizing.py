"""Resizing an elastic run from its page, over REST and in a terminal, and what the Timeline shows of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from runs.models import HeldSlot, Run, User
from runs.models.runs import size_of
from runs.values.status import Phase, Status
from tests.cast import Cast, make_attempt, make_node, spec
from tests.runs.api.conftest import Api

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey")]
AsUser = Callable[[User], Client]
MakeRun = Callable[..., Run]
RANGE = {"nodes": {"min": 1, "max": 4}, "processes_per_node": 1, "accelerator": "auto"}


@pytest.fixture
def run(cast: Cast, make_run: MakeRun) -> Run:
    """It trained on one node and trains on two."""
    document = spec(resources=RANGE, train={"steps": 2000, "batch_size": 12})
    run = make_run(name="hello", status=Status.RUNNING, spec=document, **size_of(document))
    first, second = make_node(cast.cluster, "node-a"), make_node(cast.cluster, "node-b")
    ended = timezone.now() - timedelta(seconds=30)
    why = "Ended for the other number of nodes: saved step 14 and ended in 0.4 s."
    make_attempt(run, [first], phase=Phase.ENDED, ended_at=ended, reason_code="resized", reason_sentence=why)
    HeldSlot.objects.all().delete()
    make_attempt(run, [first, second], phase=Phase.RUNNING)
    return run


def test_the_dialog_offers_what_works_and_a_choice_is_kept(run: Run, cast: Cast, as_user: AsUser) -> None:
    mate = as_user(cast.mate)
    page = mate.get(f"/runs/{run.pk}/").content.decode()
    assert f'action="/runs/{run.pk}/resize/" data-module="dialog"' in page
    assert "<b>1 to 4</b>" in page
    dialog = mate.post(f"/runs/{run.pk}/resize/?fragment=dialog").content.decode()
    assert "It trains on 2 nodes now" in dialog and "<html" not in dialog
    assert [f'value="{number}"' in dialog for number in (1, 2, 3, 4, 5)] == [True, True, True, True, False]
    mate.post(f"/runs/{run.pk}/resize/", {"nodes": "1"})
    run.refresh_from_db()
    assert (run.node_limit, run.status) == (1, "RESIZING")
    assert run.reason_sentence.startswith("mate asked for 1 node. The run shrinks from 2 to 1 node.")


@pytest.mark.parametrize("nodes", ["0", "5", "many", "-1", "1e9"])
def test_a_number_that_it_cannot_have_is_a_sentence(run: Run, cast: Cast, as_user: AsUser, nodes: str) -> None:
    answer = as_user(cast.mate).post(f"/runs/{run.pk}/resize/", {"nodes": nodes}, headers={"X-Requested-With": "fetch"})
    assert answer.status_code == 422
    run.refresh_from_db()
    assert (run.node_limit, run.status) == (None, "RUNNING")


def test_a_viewer_sees_no_button(run: Run, cast: Cast, as_user: AsUser) -> None:
    assert "/resize/" not in as_user(cast.viewer).get(f"/runs/{run.pk}/").content.decode()


def test_the_timeline_shows_the_nodes_over_time_and_the_ranks_those_that_are_gone(
    run: Run, cast: Cast, as_user: AsUser
) -> None:
    mate = as_user(cast.mate)
    page = mate.get(f"/runs/{run.pk}/timeline/").content.decode()
    assert "Nodes over time" in page and "saved step 14 and ended in 0.4 s" in page
    assert "node-a, node-b" in page and page.count("<rect") >= 2
    ranks = mate.get(f"/runs/{run.pk}/ranks/").content.decode()
    assert "Attempt 2" in ranks and "Attempt 1" in ranks


def test_a_run_of_one_size_has_no_such_card(make_run: MakeRun, cast: Cast, as_user: AsUser) -> None:
    fixed = make_run(name="fixed", status=Status.RUNNING, spec=spec())
    make_attempt(fixed, [make_node(cast.cluster)], phase=Phase.RUNNING)
    mate = as_user(cast.mate)
    assert "Nodes over time" not in mate.get(f"/runs/{fixed.pk}/timeline/").content.decode()
    assert "/resize/" not in mate.get(f"/runs/{fixed.pk}/").content.decode()


def test_rest_resizes_and_says_why_not(run: Run, cast: Cast, make_run: MakeRun) -> None:
    mate = Api(cast.mate)
    answer = mate("POST", f"/runs/{run.pk}/resize", {"nodes": 9})
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "nodes")
    assert "9 is more than resources.nodes.max, which is 4" in answer.json()["errors"][0]["message"]
    assert mate("POST", f"/runs/{run.pk}/resize", {"nodes": "two"}).status_code == 422
    assert mate("POST", f"/runs/{run.pk}/resize", {"nodes": 1}).json()["status"] == "RESIZING"
    fixed = make_run(name="fixed", spec=spec())
    refused = mate("POST", f"/runs/{fixed.pk}/resize", {"nodes": 1})
    assert refused.status_code == 409 and "Only a run whose resources.nodes is a range" in refused.json()["detail"]
