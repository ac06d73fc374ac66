"""Records that the version before this one wrote become the same rows."""

from __future__ import annotations

import pytest

from runs.ingest.commit import Source, commit
from runs.ingest.validation.records import incoming
from tests.runs.ingest.previous_version import frames_of, rows_of, stored_rows

pytestmark = pytest.mark.django_db(databases="__all__")


@pytest.mark.parametrize("run", ["sound", "unsound", "real"])
def test_records_of_the_previous_version_become_the_same_rows(run: str) -> None:
    commit(run, fence=1, source=Source("node1", "node-a"), batch=incoming(frames_of(run)))
    stored, expected = stored_rows(run), rows_of(run)
    assert stored.keys() == expected.keys()
    for name in expected:
        assert stored[name] == expected[name], name
