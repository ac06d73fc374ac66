"""Quiet hours and digests: what is held goes out in order when they end, as one message, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from runs import actions
from runs.models import Notice, NoticeRule, Run
from runs.models.notices import Where
from runs.notices import sending
from runs.notices.making import make_of_events
from runs.values.columns import QuietHours, next_time
from runs.values.status import Status
from tests.cast import Cast, make_run
from tests.receivers import Receiver, mail_receiver, web_receiver

KINDS = {"failed": "", "done": "", "straggler": ""}
NIGHT = datetime(2030, 1, 15, 23, 30, tzinfo=UTC)
MORNING = datetime(2030, 1, 16, 7, 0, tzinfo=UTC)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("NOTICE_HOSTS", "127.0.0.1")
    with web_receiver() as found:
        yield found


def save(cast: Cast, receiver: Receiver, where: str = Where.WEBHOOK, **changes: Any) -> NoticeRule:
    given = {"project": None, "kinds": KINDS, "only_mine": False, "destination": receiver.url, **changes}
    return actions.save_notice_rule(actor=cast.owner, where=where, **given)


def be_quiet(cast: Cast, begins: str = "22:00", ends: str = "07:00", *, spares_errors: bool = False) -> None:
    actions.set_quiet_hours(actor=cast.owner, begins=begins, ends=ends, zone="UTC", spares_errors=spares_errors)


def happen(cast: Cast, *names: str, at: datetime, status: Status = Status.SUCCEEDED) -> list[Run]:
    runs = [make_run(cast, status=Status.RUNNING, name=name) for name in names]
    for run in runs:
        run.move_to(status, code="over", sentence=f"{run.name} is over.")
    make_of_events(at)
    return runs


def send_due(now: datetime) -> None:
    for rule_id in sending.due(now):
        sending.send_of(rule_id, now)


def whats(receiver: Receiver) -> list[list[str]]:
    """Return what each message told of."""
    return [[one["what"] for one in body.get("notices", [body])] for body in receiver.bodies]


def test_at_night_the_bell_rings_and_the_rest_comes_in_the_morning_as_one_message(
    cast: Cast, receiver: Receiver
) -> None:
    rule = save(cast, receiver)
    bell = actions.save_notice_rule(
        actor=cast.owner, project=None, where="page", kinds=KINDS, only_mine=False, destination=""
    )
    be_quiet(cast)
    happen(cast, "first", "second", at=NIGHT)
    send_due(NIGHT)
    happen(cast, "third", at=NIGHT + timedelta(hours=2))
    send_due(NIGHT + timedelta(hours=2))
    send_due(MORNING - timedelta(seconds=1))
    assert not receiver.raw and bell.notices.filter(state="unread").count() == 3
    assert rule.notices.filter(state="held", next_at=MORNING).count() == 3
    happen(cast, "by day", at=MORNING)
    receiver.codes = [503]
    send_due(MORNING)
    assert rule.notices.filter(state="waiting").count() == 4, "what came since waits for what was held"
    happen(cast, "later", at=MORNING)
    send_due(MORNING + timedelta(minutes=1))
    assert whats(receiver) == [
        ["first is over.", "second is over.", "third is over."],
        ["by day is over."],
        ["later is over."],
    ]
    digest, oldest = receiver.bodies[0], rule.notices.order_by("pk")[0]
    assert (digest["kind"], digest["what"], digest["id"]) == ("digest", "3 notices", oldest.pk)
    assert receiver.raw[0] == receiver.raw[1] and set(rule.notices.values_list("state", flat=True)) == {"sent"}


def test_errors_and_tests_go_out_at_night_where_they_are_spared(cast: Cast, receiver: Receiver) -> None:
    rule = save(cast, receiver)
    be_quiet(cast, spares_errors=True)
    happen(cast, "calm", at=NIGHT)
    happen(cast, "broken", at=NIGHT, status=Status.FAILED)
    send_due(NIGHT)
    assert whats(receiver) == [["broken is over."]]
    actions.do_notice_rule(actor=cast.owner, rule_id=rule.pk, verb="test")
    send_due(NIGHT)
    assert receiver.bodies[-1]["kind"] == "test"
    send_due(MORNING)
    assert whats(receiver)[-1] == ["calm is over."] and receiver.bodies[-1]["kind"] == "done", "one alone is no digest"


def test_no_error_goes_out_at_night_where_none_is_spared(cast: Cast, receiver: Receiver) -> None:
    save(cast, receiver)
    be_quiet(cast)
    happen(cast, "broken", at=NIGHT, status=Status.FAILED)
    send_due(NIGHT)
    assert not receiver.raw


def test_a_rule_of_a_project_knows_no_night(cast: Cast, receiver: Receiver) -> None:
    save(cast, receiver, project=cast.project)
    be_quiet(cast)
    happen(cast, "first", at=NIGHT)
    send_due(NIGHT)
    assert whats(receiver) == [["first is over."]]


def test_who_ends_their_quiet_hours_gets_at_once_what_was_held_and_nothing_of_what_they_muted(
    cast: Cast, receiver: Receiver
) -> None:
    rule = save(cast, receiver)
    be_quiet(cast)
    _, muted, _ = happen(cast, "first", "muted", "third", at=NIGHT)
    send_due(NIGHT)
    actions.follow_run(actor=cast.owner, run=muted, is_muted=True)
    be_quiet(cast, "", "")
    cast.owner.refresh_from_db()
    assert cast.owner.quiet_hours is None
    send_due(timezone.now())
    assert whats(receiver) == [["first is over.", "third is over."]]
    assert rule.notices.get(state="failed").problem == "Its reader has muted the run."


@pytest.mark.parametrize(
    ("every", "due"), [("hour", NIGHT.replace(day=16, hour=0, minute=0)), ("day", MORNING.replace(hour=8))]
)
def test_a_digest_is_one_message_of_each_hour_or_day(cast: Cast, receiver: Receiver, every: str, due: datetime) -> None:
    save(cast, receiver, every=every, project=cast.project)
    happen(cast, "first", at=NIGHT)
    send_due(NIGHT)
    happen(cast, "second", at=NIGHT + timedelta(minutes=20))
    send_due(NIGHT + timedelta(minutes=20))
    send_due(due - timedelta(seconds=1))
    assert not receiver.raw
    send_due(due)
    happen(cast, "third", at=due)
    send_due(due)
    assert whats(receiver) == [["first is over.", "second is over."]]
    send_due(due + (timedelta(hours=1) if every == "hour" else timedelta(days=1)))
    assert whats(receiver)[1:] == [["third is over."]]


def test_a_digest_keeps_its_hour_where_quiet_hours_change(cast: Cast, receiver: Receiver) -> None:
    rule, now = save(cast, receiver, every="day"), timezone.now()
    happen(cast, "one", "two", at=now)
    send_due(now)
    be_quiet(cast, *(f"{now + timedelta(hours=hours):%H:%M}" for hours in (12, 13)))
    send_due(timezone.now() + timedelta(seconds=1))
    assert receiver.bodies == [] and set(rule.notices.values_list("state", flat=True)) == {"held"}
    send_due(timezone.now() + timedelta(days=1))
    assert whats(receiver) == [["one is over.", "two is over."]]


def test_a_digest_that_is_due_at_night_waits_for_the_morning(cast: Cast, receiver: Receiver) -> None:
    rule = save(cast, receiver, every="hour")
    be_quiet(cast)
    evening = NIGHT.replace(hour=21)
    happen(cast, "evening", at=evening)
    send_due(evening)
    happen(cast, "night", at=NIGHT)
    send_due(NIGHT)
    assert not receiver.raw and rule.notices.filter(state="held", next_at=MORNING).count() == 2
    send_due(MORNING)
    assert whats(receiver) == [["evening is over.", "night is over."]]


@pytest.mark.parametrize(("where", "num"), [(Where.SLACK, 1), (Where.TEAMS, 1), (Where.DISCORD, 2)])
def test_a_digest_fits_into_what_each_chat_takes(cast: Cast, receiver: Receiver, where: Where, num: int) -> None:
    save(cast, receiver, where, every="hour", project=cast.project)
    happen(cast, *(f"run-{number}-{'x' * 50}" for number in range(8)), at=NIGHT)
    send_due(NIGHT)
    send_due(NIGHT + timedelta(hours=1))
    texts = [str(body) for body in receiver.bodies]
    assert len(texts) == num and texts[0].count("/runs/") == (6 if num == 2 else 8)
    assert all(len(body.get("content", "")) < 2000 for body in receiver.bodies)


def test_each_incident_of_pagerduty_stays_its_own(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTICE_HOSTS", "127.0.0.1")
    with web_receiver(is_pagerduty=True) as pager:
        save(cast, pager, Where.PAGERDUTY, destination=f"{pager.url} {'a' * 32}")
        be_quiet(cast)
        happen(cast, "first", "second", at=NIGHT)
        send_due(NIGHT)
        send_due(MORNING)
    assert [one["payload"]["summary"].partition(": ")[2] for one in pager.bodies] == [
        "first is over.",
        "second is over.",
    ]
    assert len({one["dedup_key"] for one in pager.bodies}) == 2


def test_a_digest_by_mail_has_them_all(cast: Cast, settings: Any) -> None:
    cast.owner.email = "owner@example.org"
    cast.owner.save()
    with mail_receiver() as mail:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", mail.port
        save(cast, mail, Where.EMAIL, every="hour")
        happen(cast, "first", "second", at=NIGHT)
        send_due(NIGHT)
        send_due(NIGHT + timedelta(hours=1))
    (message,) = (message_from_bytes(raw) for raw in mail.raw)
    assert message["Subject"] == "Trainyard: 2 notices"
    assert "first is over." in str(message.get_payload()) and "second is over." in str(message.get_payload())


def test_of_a_hundred_held_notices_none_is_lost(cast: Cast, receiver: Receiver) -> None:
    rule = save(cast, receiver)
    be_quiet(cast)
    about = {"since": NIGHT, "path": "/", "place": "here", "next_at": NIGHT}
    Notice.objects.bulk_create(Notice(rule=rule, cause=f"done/{one}", what=str(one), **about) for one in range(120))
    send_due(NIGHT)
    send_due(MORNING)
    assert [len(some) for some in whats(receiver)] == [50, 50, 20]
    assert [int(one) for some in whats(receiver) for one in some] == list(range(120))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"begins": "22"}, "begins"),
        ({"begins": "25:00"}, "begins"),
        ({"ends": ""}, "ends"),
        ({"ends": "07:00+01:00"}, "ends"),
        ({"ends": "22:00"}, "ends"),
        ({"zone": "Mars/Base"}, "zone"),
        ({"zone": "../etc/passwd"}, "zone"),
    ],
)
def test_wrong_quiet_hours_are_refused_by_their_field(cast: Cast, changes: dict[str, str], field: str) -> None:
    given = {"begins": "22:00", "ends": "07:00", "zone": "UTC", **changes}
    with pytest.raises(ValidationError) as refused:
        actions.set_quiet_hours(actor=cast.owner, spares_errors=False, **given)
    assert list(refused.value.message_dict) == [field]


def test_a_rule_that_gathers_for_a_week_is_refused(cast: Cast, receiver: Receiver) -> None:
    with pytest.raises(ValidationError) as refused:
        save(cast, receiver, every="week")
    assert list(refused.value.message_dict) == ["every"]


@pytest.mark.parametrize(
    ("begins", "ends", "zone", "now", "until"),
    [
        (22, 7, "UTC", "2030-01-15T21:59", None),
        (22, 7, "UTC", "2030-01-15T22:00", "2030-01-16T07:00"),
        (22, 7, "UTC", "2030-01-16T06:59", "2030-01-16T07:00"),
        (22, 7, "UTC", "2030-01-16T07:00", None),
        (12, 13, "UTC", "2030-01-16T12:30", "2030-01-16T13:00"),
        (12, 13, "UTC", "2030-01-16T13:00", None),
        (22, 7, "America/New_York", "2030-01-16T03:30", "2030-01-16T12:00"),
        (22, 7, "Asia/Kolkata", "2030-01-15T16:30", "2030-01-16T01:30"),
        (22, 7, "Europe/Berlin", "2030-03-30T22:00", "2030-03-31T05:00"),  # a night of eight hours
        (22, 7, "Europe/Berlin", "2030-10-26T21:00", "2030-10-27T06:00"),  # and one of ten
    ],
)
def test_when_quiet_hours_end(begins: int, ends: int, zone: str, now: str, until: str | None) -> None:
    quiet = QuietHours(f"{begins:02}:00", f"{ends:02}:00", zone)
    found = quiet.until(datetime.fromisoformat(now).replace(tzinfo=UTC))
    assert found == (datetime.fromisoformat(until).replace(tzinfo=UTC) if until else None)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "Pacific/Apia"])
def test_an_end_always_lies_ahead(zone: str) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    for _ in range(3000):
        now += timedelta(hours=2, minutes=55)
        found = next_time("02:30", zone, now)
        assert now < found <= now + timedelta(hours=26)
