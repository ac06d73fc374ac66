"""Who follows a run gets all of it, who mutes it nothing, whatever their rules say; nobody else is touched by that."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from runs import actions
from runs.models import Following, Membership, NoticeRule, Role, Run
from runs.models.notices import Where
from runs.notices import sending
from runs.notices.making import make_of_events, make_of_states
from runs.rights.access import Forbidden, NotFound
from runs.values.refused import Refused
from runs.values.status import Status
from tests.cast import Cast, make_run
from tests.receivers import web_receiver


def finished(cast: Cast) -> Run:
    run = make_run(cast, status=Status.RUNNING)
    run.record("straggler", "Rank 1 slows the others down.")
    run.record("restarting", "A restart follows.", data={"to": Status.RECOVERING})
    run.move_to(Status.SUCCEEDED, code="done", sentence="All ranks are done.")
    return run


def kinds(rule: NoticeRule) -> list[str]:
    return [notice.kind for notice in rule.notices.order_by("pk")]


def rules_of(cast: Cast, url: str) -> tuple[NoticeRule, NoticeRule]:
    """Return a rule of the viewer's and one of the project: both want failed runs alone."""
    given = {"where": Where.WEBHOOK, "kinds": {"failed": ""}, "only_mine": True, "destination": url}
    mine = actions.save_notice_rule(actor=cast.viewer, project=None, **given)
    return mine, actions.save_notice_rule(actor=cast.owner, project=cast.project, **given)


def send_all() -> None:
    now = timezone.now()
    for rule_id in sending.due(now):
        sending.send_of(rule_id, now)


def test_who_follows_a_run_of_somebody_elses_gets_all_of_it_at_each_place(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTICE_HOSTS", "127.0.0.1")
    with web_receiver() as receiver:
        hook, of_project = rules_of(cast, receiver.url)
        followed, other = finished(cast), finished(cast)
        actions.follow_run(actor=cast.viewer, run=followed)
        make_of_events(timezone.now())
        send_all()
    assert [body["kind"] for body in receiver.bodies] == ["straggler", "restarts", "done"]
    assert {body["run"] for body in receiver.bodies} == {followed.pk} and other.pk != followed.pk
    bell = NoticeRule.objects.get(owner=cast.viewer, where=Where.PAGE)
    assert kinds(bell) == kinds(hook) == ["straggler", "restarts", "done"] and not kinds(of_project)


def test_who_mutes_a_run_gets_nothing_of_it_and_what_waits_is_not_sent(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTICE_HOSTS", "127.0.0.1")
    with web_receiver() as receiver:
        hook, of_project = rules_of(cast, receiver.url)
        hook.only_mine = False
        hook.save()
        run = make_run(cast, status=Status.RUNNING)
        run.move_to(Status.FAILED, code="rank-failed", sentence="It failed.")
        make_of_events(timezone.now())
        actions.follow_run(actor=cast.viewer, run=run, is_muted=True)
        run.record("alert", "It is hot.", data={"level": "error", "label": "hot"})
        make_of_events(timezone.now())
        send_all()
        actions.follow_run(actor=cast.viewer, run=run, is_muted=None)
        run.record("log-rule", "A line was found.", data={"label": "x", "action": "notify"})
        make_of_events(timezone.now())
    assert [body["kind"] for body in receiver.bodies] == ["failed"] and kinds(of_project) == ["failed"]
    assert kinds(hook) == ["failed"] and hook.notices.get().problem == "Its reader has muted the run."
    assert not Following.objects.exists()


def test_a_followed_run_that_waits_for_half_an_hour_is_told_of_though_no_rule_asks(cast: Cast) -> None:
    now, run = timezone.now(), make_run(cast)
    Run.objects.filter(pk=run.pk).update(created_at=now - timedelta(minutes=29))
    actions.follow_run(actor=cast.viewer, run=run)
    bell = NoticeRule.objects.get(owner=cast.viewer)
    make_of_states(now)
    assert not kinds(bell)
    make_of_states(now + timedelta(minutes=1))
    assert kinds(bell) == ["waits"]


def test_who_follows_a_run_and_may_not_read_it_any_more_gets_nothing(cast: Cast) -> None:
    run = finished(cast)
    actions.follow_run(actor=cast.viewer, run=run)
    Membership.objects.filter(user=cast.viewer).delete()
    make_of_events(timezone.now())
    assert not kinds(NoticeRule.objects.get(owner=cast.viewer))


def test_whose_run_it_is_not_to_see_neither_follows_nor_mutes_it(cast: Cast) -> None:
    run = make_run(cast)
    for is_muted in (False, True, None):
        with pytest.raises(NotFound):
            actions.follow_run(actor=cast.outsider, run=run, is_muted=is_muted)
    token, _ = actions.create_token(actor=cast.viewer, name="reads", scopes=["runs:read"])
    cast.viewer.token = token
    with pytest.raises(Forbidden, match="account:manage"):
        actions.follow_run(actor=cast.viewer, run=run)
    account = actions.create_service_account(actor=cast.owner, project=cast.project, name="ci", role=Role.MEMBER)
    with pytest.raises(Refused, match="service account"):
        actions.follow_run(actor=account, run=run)
    assert not Following.objects.exists()
