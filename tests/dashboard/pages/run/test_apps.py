"""The Terminal tab: the ranks that one can choose, or why there is no terminal."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from runs.models import Cluster, Run, User
from runs.values.status import Phase, Status
from tests.cast import Cast, make_attempt, make_node

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]


@pytest.fixture
def run(cast: Cast, make_run: Callable[..., Run]) -> Run:
    Cluster.objects.update(interactive=True)
    made = make_run(name="hello", status=Status.RUNNING)
    nodes = [make_node(cast.cluster, f"node-{name}") for name in "ab"]
    make_attempt(made, nodes, ranks=2, phase=Phase.RUNNING)
    return made


def page_of(as_user: AsUser, user: User, run: Run) -> str:
    answer = as_user(user).get(f"/runs/{run.pk}/terminal/")
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def test_a_member_chooses_among_the_ranks(cast: Cast, as_user: AsUser, run: Run) -> None:
    text = page_of(as_user, cast.mate, run)
    assert f'data-socket="/ws/runs/{run.pk}/session/"' in text
    assert [f">{rank} on node-{node}<" in text for rank, node in enumerate("aabb")] == [True] * 4


def test_who_gets_none_reads_why(cast: Cast, as_user: AsUser, run: Run) -> None:
    assert "You need to be member of project default to do this." in page_of(as_user, cast.viewer, run)
    run.attempts.update(ended_at=run.created_at)
    words = "Run hello is RUNNING and has no ranks now. A terminal opens beside one that runs."
    assert words in page_of(as_user, cast.mate, run)
    Cluster.objects.update(interactive=False)
    text = page_of(as_user, cast.mate, run)
    assert "Cluster local allows no interactive sessions." in text
    assert "terminal.js" not in text
