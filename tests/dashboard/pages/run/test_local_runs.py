"""Pages of a run that was logged outside of Trainyard: nothing is offered that cannot be done with it."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from django.test import Client

from runs.actions import SpoolProcess, send_local_run
from runs.ingest.report import store_frames
from runs.models import Run, User
from tests.cast import Cast
from tests.spools import Spool, some_points

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey")]
AsUser = Callable[[User], Client]
TABS = ("", "ranks/", "plan/", "logs/", "files/", "spec/", "timeline/")


def sent(cast: Cast, *, ends: bool = True, num_processes: int = 1, error: str = "") -> Run:
    local_id = uuid.uuid4().hex
    processes: dict[str, SpoolProcess] = {}
    run = send_local_run(actor=cast.mate, local_id=local_id, name="at home", script="/x/train.py", host="desk")
    for rank in range(num_processes):
        spool = Spool()
        spool.begin(rank, role="script")
        spool.points(some_points(0, 3))
        if ends:
            spool.end()
        store_frames(run, spool.bytes)
        processes[spool.producer] = SpoolProcess(rank=rank, host="desk", began_at=1000.0, ended_at=1009.0, error=error)
    return send_local_run(actor=cast.mate, local_id=local_id, name="at home", processes=processes)


def text(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, path
    return answer.content.decode()


@pytest.mark.parametrize("ends", [True, False])
def test_no_page_of_it_offers_what_it_cannot_do(as_user: AsUser, cast: Cast, ends: bool) -> None:
    run = sent(cast, ends=ends)
    client = as_user(cast.mate)
    for path in (*(f"/runs/{run.pk}/{tab}" for tab in TABS), "/runs/"):
        page = text(client, path)
        assert "at home" in page
        for verb in ("stop", "restart", "clone"):
            assert f"/runs/{run.pk}/do/{verb}/" not in page and f"/runs/{run.pk}/{verb}/" not in page, (path, verb)
        assert f"from=run:{run.pk}" not in page
    page = text(client, f"/runs/{run.pk}/")
    assert "logged outside of Trainyard" in page and "<b>desk</b>" in page
    assert ("This run has no end yet" in page) is not ends
    assert text(client, f"/runs/{run.pk}/ranks/").count("no end yet</span>") == (0 if ends else 1)


def test_one_without_an_end_needs_somebody_and_is_not_said_to_run(as_user: AsUser, cast: Cast) -> None:
    run = sent(cast, ends=False, num_processes=3)
    page = text(as_user(cast.mate), "/")
    assert "The end of 3 of its 3 processes has not arrived" in page and "Nothing is running" in page
    assert f"/runs/{run.pk}/" in page and "Give up" in page
    assert "Duration" not in page and "0 × 0" not in page


def test_one_that_failed_is_looked_at_and_not_restarted(as_user: AsUser, cast: Cast) -> None:
    run = sent(cast, num_processes=2, error="ValueError: <b>coal")
    Run.objects.filter(pk=run.pk).update(ended_at=run.created_at)
    page = text(as_user(cast.mate), "/")
    assert "Rank 0 on desk ended with ValueError: &lt;b&gt;coal" in page and "Restart" not in page
    evidence = text(as_user(cast.mate), f"/runs/{run.pk}/")
    assert "process " in evidence and "Rank 1 on desk ended" in evidence


def test_it_is_no_start_for_a_launch(as_user: AsUser, cast: Cast) -> None:
    run = sent(cast)
    client = as_user(cast.mate)
    assert client.get(f"/launch/?from=run:{run.pk}").status_code == 404
    assert f"run:{run.pk}" not in text(client, "/launch/")


def test_its_time_ends_with_its_last_record(as_user: AsUser, cast: Cast) -> None:
    sent(cast, ends=False)
    page = text(as_user(cast.mate), "/runs/")
    assert "2 s" in page, "from its begin at 1000 to its step at 1002, not until today"
