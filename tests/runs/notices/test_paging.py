"""PagerDuty gets one incident for one cause, with its severity, and its end where there is one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from runs import actions
from runs.models import NoticeRule
from runs.models.notices import Where
from runs.notices import sending
from runs.notices.making import make_of_events
from runs.values.status import Status
from tests.cast import Cast, make_attempt, make_run
from tests.receivers import Receiver, web_receiver

KEY = "e93facc04764012d7bfb002500d5d1a6"
KINDS = {"failed": "", "stalled": "", "idle": "", "alert": "", "done": "", "metric": ""}


@pytest.fixture
def pager(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("NOTICE_HOSTS", "127.0.0.1")
    with web_receiver(is_pagerduty=True) as found:
        yield found


def page_by(cast: Cast, destination: str) -> NoticeRule:
    given = {"where": Where.PAGERDUTY, "kinds": KINDS, "only_mine": False, "destination": destination}
    rule = actions.save_notice_rule(actor=cast.owner, project=cast.project, **given)
    assert rule.key == "", "the key is theirs"
    return rule


def send_all(after_s: float = 0) -> None:
    now = timezone.now() + timedelta(seconds=after_s)
    make_of_events(now)
    for rule_id in sending.due(now):
        sending.send_of(rule_id, now)


def test_a_run_that_failed_is_an_incident_known_by_its_cause(cast: Cast, pager: Receiver) -> None:
    rule = page_by(cast, f"{pager.url} {KEY}")
    run = make_run(cast, status=Status.RUNNING)
    run.move_to(Status.FAILED, code="rank-failed", sentence="It failed. " + "x" * 2000)
    send_all()
    (event,), cause = pager.bodies, rule.notices.get().cause
    assert (event["routing_key"], event["event_action"], event["payload"]["severity"]) == (KEY, "trigger", "error")
    assert event["dedup_key"] == hashlib.sha256(cause.encode()).hexdigest() and event["client_url"].endswith(
        run.pk + "/"
    )
    assert event["payload"]["summary"].startswith(f"run {run.name} ({run.pk}) of project default: It failed.")
    assert event["payload"]["class"] == "failed" and event["payload"]["custom_details"]["run"] == run.pk
    assert rule.notices.get().state == "sent" and rule.shown == "127.0.0.1" and KEY not in rule.locked


@pytest.mark.parametrize(("level", "severity"), [("info", "info"), ("warn", "warning"), ("error", "error")])
def test_the_severity_of_an_alert_is_its_level(cast: Cast, pager: Receiver, level: str, severity: str) -> None:
    page_by(cast, f"{pager.url} {KEY}")
    run = make_run(cast, status=Status.RUNNING)
    run.record("alert", "It is hot.", data={"level": level, "label": "hot"})
    run.record("metric-alarm", "The loss is NaN.", data={"metric": "loss", "action": "notify"})
    run.move_to(Status.SUCCEEDED, code="done", sentence="All ranks are done.")
    send_all()
    assert [one["payload"]["severity"] for one in pager.bodies] == [severity, "warning", "info"]


@pytest.mark.parametrize(("begins", "ends"), [("hang-found", "hang-over"), ("idle", "idle-over")])
@pytest.mark.parametrize("is_at_once", [True, False])
def test_what_is_over_is_resolved_and_begins_anew_the_next_time(
    cast: Cast, pager: Receiver, begins: str, ends: str, is_at_once: bool
) -> None:
    page_by(cast, f"{pager.url} {KEY}")
    bell = NoticeRule.objects.create(owner=cast.mate, where=Where.PAGE, kinds={"stalled": 0, "idle": 0})
    run = make_run(cast, status=Status.RUNNING)
    attempt = make_attempt(run, [])
    for _ in range(2):
        for code in (begins, begins, ends):
            run.record(code, f"{code}.", attempt=attempt)
            if not is_at_once:
                send_all()
    send_all()
    assert [one["event_action"] for one in pager.bodies] == ["trigger", "resolve"] * 2
    first, end, again, end_again = (one["dedup_key"] for one in pager.bodies)
    assert first == end and again == end_again and first != again
    assert list(bell.notices.order_by("pk").values_list("what", "count")) == [(f"{begins}.", 2)] * 2


def test_an_end_of_what_nobody_was_paged_for_is_none(cast: Cast, pager: Receiver) -> None:
    rule = page_by(cast, f"{pager.url} {KEY}")
    run = make_run(cast, status=Status.RUNNING)
    run.record("hang-over", "The ranks make progress again.", attempt=make_attempt(run, []))
    send_all()
    assert not pager.raw and not rule.notices.exists()


def test_too_many_events_are_tried_again_and_a_key_of_nobodys_is_refused(cast: Cast, pager: Receiver) -> None:
    rule = page_by(cast, f"{pager.url} {KEY}")
    pager.codes = [429, 500]
    run = make_run(cast, status=Status.RUNNING)
    run.move_to(Status.FAILED, code="rank-failed", sentence="It failed.")
    send_all()
    send_all(3)
    assert rule.notices.get().state == "waiting"
    send_all(60)
    assert rule.notices.get().state == "sent" and len(pager.bodies) == 1 and pager.raw[0] == pager.raw[2]
    rule.delete()
    rule = page_by(cast, f"{pager.url} {'0' * 32}")
    actions.do_notice_rule(actor=cast.owner, rule_id=rule.pk, verb="test")
    send_all(60)
    assert (rule.notices.get().state, rule.notices.get().problem) == ("failed", "127.0.0.1 answered 400.")


@pytest.mark.parametrize(
    "typed", ["", "short", "https://example.org/x", f"{KEY}x", f"{KEY[:-1]}é", f"https://x {KEY[1:]}"]
)
def test_what_is_no_routing_key_is_refused_without_repeating_it(cast: Cast, typed: str) -> None:
    with pytest.raises(ValidationError, match="routing key of 32 characters") as refused:
        page_by(cast, typed)
    assert list(refused.value.message_dict) == ["destination"] and KEY[5:20] not in str(refused.value)


def test_where_its_url_may_not_lead_is_said(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTICE_HOSTS", raising=False)
    with pytest.raises(ValidationError, match="NOTICE_HOSTS"):
        page_by(cast, f"http://127.0.0.1:9/v2/enqueue {KEY}")
