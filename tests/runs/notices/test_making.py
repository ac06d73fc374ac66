"""What happens becomes a notice once, for those alone who asked for it and may read what it is about."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone
from structlog.testing import capture_logs

from runs import actions
from runs.models import Membership, NewEvent, Notice, NoticeRule, Preflight, Project, Run
from runs.models.notices import OF_BELLS, OVER, NoticeKind, Where
from runs.notices import making
from runs.notices.making import bounded_cause, make_of_events, make_of_states
from runs.values.columns import Check, CheckState, LimitNotice
from runs.values.status import Status
from tests.cast import Cast, make_attempt, make_node, make_sweep
from trainyard.contract.base import to_builtins
from trainyard.contract.machines import Health
from trainyard.contract.statuses import SweepStatus

MakeRun = Callable[..., Run]
EVERYTHING = {str(kind): 0 for kind in NoticeKind}


def rule(**values: Any) -> NoticeRule:
    return NoticeRule.objects.create(**{"where": Where.PAGE, "kinds": EVERYTHING, **values})


def fail(run: Run, sentence: str = "Rank 0 ended with exit code 1.") -> None:
    run.move_to(Status.FAILED, code="rank-failed", sentence=sentence)


def whats(of: NoticeRule) -> list[str]:
    return [notice.what for notice in of.notices.order_by("pk")]


def test_who_launched_a_run_that_failed_for_good_finds_it_on_their_bell(cast: Cast, make_run: MakeRun) -> None:
    run = make_run(status=Status.RUNNING)
    run.record("note", "Nothing to be said of.")
    fail(run)
    assert make_of_events(timezone.now()) == 1 and not NewEvent.objects.exists()
    notice = actions.visible_notices(cast.mate).get()
    assert (notice.kind, notice.path, notice.state) == ("failed", f"/runs/{run.pk}/", "unread")
    assert notice.what == "Rank 0 ended with exit code 1." and "of project default" in notice.place
    assert make_of_events(timezone.now()) == 0 and Notice.objects.count() == 1
    assert not actions.visible_notices(cast.owner).exists()  # nobody asked for others' runs


def test_a_member_gets_nothing_of_a_project_that_they_may_not_read(cast: Cast, make_run: MakeRun) -> None:
    outside, inside = rule(owner=cast.outsider), rule(owner=cast.viewer)
    of_other = rule(project=Project.objects.create(name="other"), where=Where.WEBHOOK)
    fail(make_run(status=Status.RUNNING))
    make_of_events(timezone.now())
    assert not whats(outside) and not whats(of_other) and len(whats(inside)) == 1
    Membership.objects.filter(user=cast.viewer).delete()  # what they were told before is hidden, too
    assert not actions.visible_notices(cast.viewer).exists()


def test_an_event_whose_transaction_was_rolled_back_is_none_and_one_of_a_killed_round_is_made_again(
    cast: Cast, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = rule(owner=cast.mate)
    fail(make_run(status=Status.RUNNING))
    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(NewEvent.objects, "filter", lambda **_: (_ for _ in ()).throw(RuntimeError("killed")))
        make_of_events(timezone.now())
    assert not whats(mine)
    make_of_events(timezone.now())
    assert len(whats(mine)) == 1


def test_fifty_runs_of_one_lost_node_are_one_notice(cast: Cast, make_run: MakeRun) -> None:
    now, mine = timezone.now(), rule(owner=cast.mate)
    node = make_node(cast.cluster, "node-x", slots=50, seen_at=now - timedelta(minutes=5))
    for number in range(50):
        run = make_run(status=Status.RECOVERING, name=f"run-{number}")
        attempt = make_attempt(run, [])
        attempt.placements.create(node=node, node_rank=0, first_rank=0, num_ranks=1)
        run.move_to(Status.LOST, code="lost", sentence="Its node is out of contact.", attempt=attempt)
        if number == 20:
            make_of_events(now)
    make_of_events(now)
    notice = mine.notices.get()
    assert notice.count == 50 and notice.place.endswith("on node-x")


def test_what_a_run_said_before_its_node_was_lost_keeps_its_own_cause(cast: Cast, make_run: MakeRun) -> None:
    now, mine = timezone.now(), rule(owner=cast.mate)
    node = make_node(cast.cluster, "node-x", seen_at=now - timedelta(minutes=5))
    for number in range(2):
        run = make_run(status=Status.RUNNING, name=f"run-{number}")
        attempt = make_attempt(run, [])
        attempt.placements.create(node=node, node_rank=0, first_rank=0, num_ranks=1)
        for metric in ("loss", "accuracy"):
            words = f"{metric} of {run.name} is NaN."
            run.record("metric-alarm", words, data={"metric": metric, "action": "notify"}, attempt=attempt)
        run.move_to(Status.SUCCEEDED, code="succeeded", sentence=f"{run.name} is done.", attempt=attempt)
    make_of_events(now)
    assert sorted(whats(mine)) == [
        "accuracy of run-0 is NaN.",
        "accuracy of run-1 is NaN.",
        "loss of run-0 is NaN.",
        "loss of run-1 is NaN.",
        "run-0 is done.",
        "run-1 is done.",
    ]


def test_restarts_count_within_an_hour(cast: Cast, make_run: MakeRun) -> None:
    mine = rule(owner=cast.mate, kinds={"restarts": 3})
    run = make_run(status=Status.RUNNING)
    for number in range(3):
        assert not mine.notices.exists()
        run.record("restarting", f"Restart {number} follows.", data={"to": Status.RECOVERING})
        make_of_events(timezone.now())
    assert whats(mine) == ["Restart 2 follows."]


@pytest.mark.parametrize(
    ("code", "data", "kind"),
    [
        ("hang-found", {}, "stalled"),
        ("straggler", {}, "straggler"),
        ("metric-alarm", {"metric": "train/loss", "action": "notify"}, "metric"),
        ("log-rule", {"label": "nfs", "action": "notify"}, "log"),
        ("log-rule", {"label": "nfs", "action": "label"}, ""),
        ("recovered", {}, ""),
    ],
)
def test_each_kind_of_event(cast: Cast, make_run: MakeRun, code: str, data: dict[str, str], kind: str) -> None:
    mine = rule(owner=cast.mate)
    run = make_run(status=Status.RUNNING)
    attempt = make_attempt(run, [])
    for _ in range(2):
        run.record(code, "It happened.", data=data, attempt=attempt)
    make_of_events(timezone.now())
    assert [(notice.kind, notice.count) for notice in mine.notices.all()] == ([(kind, 2)] if kind else [])


def test_states_are_one_notice_each_for_as_long_as_they_last(cast: Cast, make_run: MakeRun) -> None:
    now = timezone.now()
    mine = rule(project=cast.project, where=Where.WEBHOOK, created_at=now - timedelta(hours=1))
    sweep = make_sweep(cast)
    assert sweep.move_to(SweepStatus.SUCCEEDED, code="done", sentence="All trials have ended.")
    make_node(cast.cluster, "gone", seen_at=now - timedelta(minutes=5))
    make_node(cast.cluster, "drained", seen_at=now - timedelta(minutes=5), is_draining=True)
    said = {"slots": LimitNotice(now, "Project default holds 8 of 10 slots.")}
    Project.objects.filter(pk=cast.project.pk).update(limit_notices=to_builtins(said))
    check = Check(name="disk", state=CheckState.FAIL, sentence="The disk of bad is full.", node="bad")
    Preflight.objects.create(cluster=cast.cluster, why="asked", results=to_builtins([check]), ended_at=now)
    Run.objects.filter(pk=make_run().pk).update(created_at=now - timedelta(minutes=31))
    for _ in range(2):
        make_of_states(now + timedelta(seconds=1))
    assert {notice.kind for notice in mine.notices.all()} == {"sweep", "limits", "waits", "node", "preflight"}
    assert mine.notices.count() == 5 and "Node gone is out of contact. Nothing is started there." in whats(mine)


def test_a_run_waits_as_long_as_the_rule_says(cast: Cast, make_run: MakeRun) -> None:
    now, mine = timezone.now(), rule(owner=cast.mate, kinds={"waits": 60})
    Run.objects.filter(pk=make_run().pk).update(created_at=now - timedelta(minutes=59))
    make_of_states(now)
    assert not mine.notices.exists()
    make_of_states(now + timedelta(minutes=1))
    assert mine.notices.count() == 1


def test_what_ended_before_a_rule_was_made_is_no_news_to_it(cast: Cast) -> None:
    sweep = make_sweep(cast)
    sweep.move_to(SweepStatus.SUCCEEDED, code="done", sentence="All trials have ended.")
    mine = rule(owner=cast.mate)
    make_of_states(timezone.now())
    assert not mine.notices.exists()


def test_a_run_that_succeeds_is_for_rules_that_name_it_and_no_bell_at_first(cast: Cast, make_run: MakeRun) -> None:
    named, bell = rule(owner=cast.viewer, where=Where.EMAIL, kinds={"done": 0}), rule(owner=cast.mate, kinds=OF_BELLS)
    make_run(status=Status.RUNNING).move_to(Status.SUCCEEDED, code="done", sentence="All ranks are done.")
    make_of_events(timezone.now())
    assert whats(named) == ["All ranks are done."] and not whats(bell)


@pytest.mark.parametrize(("used", "num"), [(949, 0), (950, 1), (None, 0)])
def test_a_node_whose_disk_is_nearly_full_is_one_notice_a_day(cast: Cast, used: int | None, num: int) -> None:
    mine = rule(project=cast.project, where=Where.WEBHOOK, kinds={"disk": 0})
    now = timezone.now()
    health = to_builtins(Health(disk_bytes=1000, disk_used_bytes=used))
    make_node(cast.cluster, "full", seen_at=now, health=health)
    make_node(cast.cluster, "away", seen_at=now - timedelta(minutes=5), health=health)  # it says nothing any more
    for _ in range(2):
        make_of_states(now)
    assert whats(mine) == ["Of the disk of node full 50 B of 1000 B are free."] * num


def test_a_metric_with_a_long_name_has_its_notices_and_no_two_of_them_have_one_cause(
    cast: Cast, make_run: MakeRun
) -> None:
    mine, run = rule(owner=cast.mate), make_run(status=Status.RUNNING)
    for name in ("m" * 500, "m" * 499 + "n", "m" * 500, "loss"):
        run.record("metric-alarm", f"{name[-1]} is NaN.", data={"metric": name, "action": "notify"})
    make_of_events(timezone.now())
    assert whats(mine) == ["m is NaN.", "n is NaN.", "m is NaN.", "s is NaN."]  # each event has its own
    assert all(len(OVER + notice.cause) <= 300 and notice.kind == "metric" for notice in mine.notices.all())
    assert mine.notices.get(cause__endswith="/loss").cause.startswith(f"metric/{run.pk}/")
    first, other = (bounded_cause("metric/" + "m" * 500 + end) for end in "ab")
    assert first != other and first == bounded_cause("metric/" + "m" * 500 + "a")


def test_an_event_that_cannot_be_made_into_a_notice_is_left_out_and_the_others_are_made(
    cast: Cast, make_run: MakeRun
) -> None:
    mine, run = rule(owner=cast.mate), make_run(status=Status.RUNNING)
    run.record("alert", "Before.", data={"label": "a", "level": "warn"})
    run.record("alert", "Of no level.", data={"label": "b", "level": "dreadful"})
    run.record("alert", "Behind.", data={"label": "c", "level": "warn"})
    with capture_logs() as said:
        assert make_of_events(timezone.now()) == 3
    assert whats(mine) == ["Before.", "Behind."] and not NewEvent.objects.exists()
    left_out = run.events.get(sentence="Of no level.").pk
    assert [one["event_id"] for one in said if one["event"] == "notice.not_made"] == [left_out]
    assert make_of_events(timezone.now()) == 0


def test_events_wait_for_a_database_that_is_away(
    cast: Cast, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, run = rule(owner=cast.mate), make_run(status=Status.RUNNING)
    fail(run)
    with monkeypatch.context() as patch, pytest.raises(OperationalError):
        patch.setattr(making, "make_bells", lambda _: (_ for _ in ()).throw(OperationalError("away")))
        make_of_events(timezone.now())
    make_of_events(timezone.now())
    assert len(whats(mine)) == 1
