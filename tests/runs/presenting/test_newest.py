"""The newest attempts of many runs are read together."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from runs.models import Attempt, HeldSlot, Run
from runs.presenting.listing import Newest, newest_of, newest_of_all, ranks_of_all
from tests.cast import Cast, make_attempt, make_node

pytestmark = pytest.mark.django_db
NumQueries = Callable[[int], AbstractContextManager[object]]


def test_each_run_has_its_newest_attempt_with_its_placements(
    cast: Cast, make_run: Callable[..., Run], django_assert_num_queries: NumQueries
) -> None:
    nodes = [make_node(cast.cluster, name) for name in ("a", "b")]
    never, once, twice = make_run(), make_run(), make_run()
    make_attempt(once, nodes[:1])
    first = make_attempt(twice, nodes[1:])
    HeldSlot.objects.all().delete()
    Attempt.objects.filter(pk=first.pk).update(ended_at=first.created_at)
    second = make_attempt(twice, nodes)
    with django_assert_num_queries(3):
        found = newest_of_all([never, once, twice])
        names = {run_id: [one.node.name for one in newest.placements] for run_id, newest in found.items()}
    assert names == {never.pk: [], once.pk: ["a"], twice.pk: ["a", "b"]}
    assert found[never.pk] == Newest() and found[twice.pk].attempt == second == newest_of(twice).attempt
    assert all(one.attempt is found[twice.pk].attempt for one in found[twice.pk].placements)
    with django_assert_num_queries(2):
        ranks = ranks_of_all([never.pk, once.pk, twice.pk])
    assert ranks == {pk: [one.num_ranks for one in newest.placements] for pk, newest in found.items()}
    assert ranks_of_all([]) == {}
