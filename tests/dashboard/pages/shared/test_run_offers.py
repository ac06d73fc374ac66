from __future__ import annotations

from collections.abc import Callable

import pytest

from dashboard.pages.shared.run_rows import Offers, offers_of
from runs.models import Run
from runs.values.status import Status, Wanted

pytestmark = pytest.mark.django_db
MakeRun = Callable[..., Run]


def names(offers: Offers) -> set[str]:
    return {name for name, is_offered in offers._asdict().items() if is_offered}


@pytest.mark.parametrize(
    ("status", "offered"),
    [
        (Status.QUEUED, {"stop", "pause", "clone"}),
        (Status.RUNNING, {"stop", "pause", "clone", "trace", "rewind"}),
        (Status.STOPPING, {"end_at_once", "clone"}),
        (Status.PAUSED, {"stop", "resume", "clone", "rewind"}),
        (Status.LOST, {"stop", "pause", "give_up", "clone"}),
        (Status.SUCCEEDED, {"clone", "archive", "delete"}),
        (Status.CANCELLED, {"restart", "clone", "archive", "delete", "rewind"}),
        (Status.FAILED, {"restart", "repair", "clone", "archive", "delete", "rewind"}),
    ],
)
def test_a_run_offers_what_its_status_allows(make_run: MakeRun, status: Status, offered: set[str]) -> None:
    assert names(offers_of(make_run(status=status))) == offered


def test_a_run_that_is_being_paused_can_still_be_stopped(make_run: MakeRun) -> None:
    assert names(offers_of(make_run(status=Status.STOPPING, wanted=Wanted.PAUSE))) == {"stop", "clone"}


def test_a_run_that_was_logged_elsewhere_is_neither_stopped_nor_started(make_run: MakeRun) -> None:
    assert names(offers_of(make_run(status=Status.RUNNING, local_id="laptop"))) == {"trace"}
    assert names(offers_of(make_run(status=Status.FAILED, local_id="desk"))) == {"archive", "delete"}
