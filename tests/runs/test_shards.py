"""Which ingest a run belongs to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.management import CommandError, call_command
from django.db import connections

from dashboard.up import database as house
from dashboard.up import programs
from runs.actions import submit_run
from runs.models import Run
from runs.values.ids import new_id, shard_of
from tests.cast import Cast

pytestmark = pytest.mark.django_db(databases="__all__")


def test_runs_are_spread_evenly_and_each_stays_where_it_is() -> None:
    ids = [new_id() for _ in range(4000)]
    counted = Counter(shard_of(run_id, 4) for run_id in ids)
    assert sorted(counted) == [0, 1, 2, 3] and min(counted.values()) > 800
    assert [shard_of(run_id, 4) for run_id in ids] == [shard_of(run_id, 4) for run_id in ids]
    assert {shard_of(run_id, 1) for run_id in ids} == {0}


def test_a_new_run_has_the_shard_of_its_id(cast: Cast, settings: Any) -> None:
    settings.INGEST_SHARDS = 64
    runs = [submit_run(actor=cast.owner, document=document(cast)) for _ in range(3)]
    assert [run.shard for run in runs] == [shard_of(run.pk, 64) for run in runs]


def document(cast: Cast) -> dict[str, Any]:
    return {
        "name": "one",
        "project": cast.project.name,
        "cluster": cast.cluster.name,
        "task": {"recipe": "language-model"},
    }


def test_there_is_an_ingest_for_each_shard_that_is_set_or_that_a_run_has(
    make_run: Callable[..., Run], settings: Any
) -> None:
    assert house.num_shards() == 1
    settings.INGEST_SHARDS = 2
    assert house.num_shards() == 2
    make_run(shard=3)
    assert house.num_shards() == 4
    assert [programs.ingest(shard).name for shard in range(3)] == ["ingest", "ingest-1", "ingest-2"]
    assert programs.ingest(2).command[-2:] == ["--shard", "2"]


def test_on_sqlite_nobody_writes_beside_the_one_ingest() -> None:
    if connections[django_settings.METRICS_DATABASE].vendor != "sqlite":
        pytest.skip("on PostgreSQL there may be many")
    with pytest.raises(CommandError, match="one writer"):
        call_command("ingest", shard=1)
