"""Notices reach their destination in order, each at least once, and nothing of a destination's secret is seen."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import logging
import socket
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from email import message_from_bytes
from typing import Any

import pytest
from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils import timezone

from runs import actions
from runs.models import AuditEntry, Membership, Notice, NoticeRule, Run
from runs.models.notices import Where
from runs.notices import destinations, sending
from runs.notices.making import make_of_events
from runs.rights.access import Forbidden, NotFound
from runs.rights.secrets.store import rotate_key
from runs.values.status import Status
from tests.cast import Cast, make_run
from tests.receivers import Receiver, mail_receiver, web_receiver

ALL = {"failed": ""}


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("NOTICE_HOSTS", "127.0.0.1")
    with web_receiver() as found:
        yield found


@pytest.fixture
def mail(settings: Any) -> Iterator[Receiver]:
    with mail_receiver() as found:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", found.port
        yield found


def save(cast: Cast, where: str, destination: str = "", **changes: Any) -> tuple[NoticeRule, str]:
    actor = changes.pop("actor", cast.owner)
    values = {"project": None, "kinds": ALL, "only_mine": False, "destination": destination, **changes}
    rule = actions.save_notice_rule(actor=actor, where=where, **values)
    return NoticeRule.objects.get(pk=rule.pk), rule.key


def fail(cast: Cast, *names: str) -> list[Run]:
    runs = [make_run(cast, status=Status.RUNNING, name=name) for name in names]
    for run in runs:
        run.move_to(Status.FAILED, code="rank-failed", sentence=f"{run.name} failed <b>&.")
    make_of_events(timezone.now())
    return runs


def send_due(now: datetime) -> None:
    for rule_id in sending.due(now):
        sending.send_of(rule_id, now)


def states(rule: NoticeRule) -> list[str]:
    return list(rule.notices.order_by("pk").values_list("state", flat=True))


def test_a_webhook_gets_the_notice_signed_with_its_time(cast: Cast, receiver: Receiver) -> None:
    rule, key = save(cast, Where.WEBHOOK, receiver.url)
    (run,) = fail(cast, "first")
    send_due(timezone.now())
    body, headers = receiver.bodies[0], receiver.headers[0]
    assert body["kind"] == "failed" and body["what"].startswith("first failed") and body["url"].endswith(f"/{run.pk}/")
    moment = headers["trainyard-timestamp"]
    wanted = hmac.new(key.encode(), f"{moment}.".encode() + receiver.raw[0], hashlib.sha256).hexdigest()
    assert headers["trainyard-signature"] == f"sha256={wanted}" and abs(float(moment) - timezone.now().timestamp()) < 60
    assert headers["host"] == f"127.0.0.1:{receiver.port}" and states(rule) == ["sent"]


def test_order_is_kept_after_an_hour_without_the_receiver_and_ids_repeat(cast: Cast, receiver: Receiver) -> None:
    rule, _ = save(cast, Where.WEBHOOK, receiver.url)
    receiver.codes = [503, 429]
    fail(cast, "first", "second", "third")
    now = timezone.now()
    send_due(now)
    send_due(now)  # not before its pause is over
    assert len(receiver.raw) == 1 and states(rule) == ["waiting"] * 3
    send_due(now + timedelta(seconds=3))
    send_due(now + timedelta(hours=1))
    assert [body["what"].split()[0] for body in receiver.bodies] == ["first", "second", "third"]
    ids = list(rule.notices.order_by("pk").values_list("pk", flat=True))
    assert [body["id"] for body in receiver.bodies] == ids and receiver.raw[0] == receiver.raw[2]


def test_a_notice_whose_sender_was_killed_is_sent_once_more_with_its_id(
    cast: Cast, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule, _ = save(cast, Where.WEBHOOK, receiver.url)
    fail(cast, "first", "second")
    now = timezone.now()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        real = destinations.send

        def send_and_die(notice: Notice, at: datetime) -> None:
            real(notice, at)
            raise KeyboardInterrupt

        patch.setattr(sending, "send", send_and_die)
        send_due(now)
    send_due(now + timedelta(seconds=30))
    assert len(receiver.bodies) == 1  # who was killed might still be at it
    send_due(now + sending.LEASE)
    first, second = rule.notices.order_by("pk").values_list("pk", flat=True)
    assert [body["id"] for body in receiver.bodies] == [first, first, second]


def test_a_receiver_that_drips_its_answer_holds_nobody_up(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTICE_HOSTS", "127.0.0.1")
    monkeypatch.setattr(destinations, "WHOLE_S", 0.5)
    is_over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\n")
                while not is_over.wait(0.05):
                    connection.sendall(b"a")

        dripping = threading.Thread(target=drip)
        dripping.start()
        rule, _ = save(cast, Where.WEBHOOK, f"http://127.0.0.1:{listener.getsockname()[1]}/")
        fail(cast, "first")
        send_due(timezone.now())
        is_over.set()
        dripping.join(10)
    assert states(rule) == ["waiting"] and "does not answer" in rule.notices.get().problem


@pytest.mark.parametrize(("code", "words"), [(302, "no redirect is followed"), (410, "answered 410")])
def test_what_is_refused_is_listed_and_sent_again_on_request(
    cast: Cast, receiver: Receiver, code: int, words: str
) -> None:
    rule, _ = save(cast, Where.WEBHOOK, receiver.url)
    receiver.codes = [code]
    fail(cast, "first", "second")
    send_due(timezone.now())
    assert states(rule) == ["failed", "sent"]
    assert words in rule.notices.get(state="failed").problem
    actions.do_notice_rule(actor=cast.owner, rule_id=rule.pk, verb="again")
    send_due(timezone.now())
    assert states(rule) == ["sent", "sent"]


def test_a_redirect_to_a_private_address_is_not_followed(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTICE_HOSTS", "127.0.0.1")
    with web_receiver() as inside, web_receiver(f"http://127.0.0.1:{inside.port}/") as outside:
        rule, _ = save(cast, Where.WEBHOOK, outside.url)
        outside.codes = [307]
        fail(cast, "first")
        send_due(timezone.now())
        assert outside.raw and not inside.raw and states(rule) == ["failed"]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:9/x", "where NOTICE_HOSTS of the server names it"),
        ("http://localhost:9/x", "where NOTICE_HOSTS of the server names it"),
        ("http://[::1]:9/x", "where NOTICE_HOSTS of the server names it"),
        ("http://169.254.169.254/latest", "where NOTICE_HOSTS of the server names it"),
        ("https://10.0.0.1/x", "where NOTICE_HOSTS of the server names it"),
        ("https://[::ffff:10.0.0.1]/x", "where NOTICE_HOSTS of the server names it"),
        ("http://93.184.216.34/x", "without encryption"),
        ("https://me:secret@93.184.216.34/x", "without a user name"),
        ("ftp://93.184.216.34/x", "must be a URL"),
        ("file:///etc/passwd", "must be a URL"),
        ("https://no-such-host.invalid/x", "There is no host"),
        ("", "must be a URL"),
    ],
)
def test_where_no_webhook_may_lead(cast: Cast, url: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_DATA_HOSTS", "127.0.0.1 ::1 10.0.0.0/8")  # that is about data
    with pytest.raises(ValidationError, match=words) as refused:
        save(cast, Where.WEBHOOK, url)
    assert "secret" not in str(refused.value) and not NoticeRule.objects.exclude(where=Where.PAGE).exists()


def test_a_name_that_leads_inside_later_gets_nothing(
    cast: Cast, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule, _ = save(cast, Where.WEBHOOK, receiver.url)
    monkeypatch.setenv("NOTICE_HOSTS", "")
    fail(cast, "first")
    send_due(timezone.now())
    assert not receiver.raw and "NOTICE_HOSTS" in rule.notices.get().problem


@pytest.mark.parametrize("where", [Where.SLACK, Where.DISCORD, Where.TEAMS])
def test_chats_get_what_they_read(cast: Cast, receiver: Receiver, where: Where) -> None:
    save(cast, where, receiver.url)
    fail(cast, "first")
    send_due(timezone.now())
    (body,) = receiver.bodies
    card = body.get("attachments", [{"content": {"body": [{}]}}])[0]["content"]["body"][0]
    text = body.get("text") or body.get("content") or card["text"]
    wanted = "first failed &lt;b&gt;&amp;." if where == Where.SLACK else r"first failed <b\>&."
    assert text.startswith(wanted) and "Where: run first" in text and "trainyard-signature" not in receiver.headers[0]


@pytest.mark.parametrize("where", [Where.DISCORD, Where.TEAMS])
@pytest.mark.parametrize("num", [1, 2])
def test_no_name_becomes_markup_in_a_chat_that_reads_markdown(
    cast: Cast, receiver: Receiver, where: Where, num: int
) -> None:
    rule, _ = save(cast, where, receiver.url)
    fail(cast, *["[Sign in](https://evil.example) *_~`|#\\"] * num)
    rule.notices.update(batch=rule.notices.order_by("pk")[0].pk)  # as those of a digest
    send_due(timezone.now())
    (body,) = receiver.bodies
    card = body.get("attachments", [{"content": {"body": [{}]}}])[0]["content"]["body"][0]
    text = body.get("content") or card["text"]
    assert r"\[Sign in\]\(https://evil.example\) \*\_\~\`\|\#\\" in text and "[Sign in](" not in text
    assert text.count(f"\n{settings.PUBLIC_URL}/runs/") == num  # our own link is one
    if where == Where.DISCORD:  # nobody is called, and no page of a link is shown
        assert (body["allowed_mentions"], body["flags"]) == ({"parse": []}, 4)


def test_mail_goes_to_the_persons_own_address(cast: Cast, mail: Receiver) -> None:
    cast.owner.email = "owner@example.org\nBcc: all@example.org"
    cast.owner.save()
    rule, _ = save(cast, Where.EMAIL, "somebody.else@example.org")
    fail(cast, "before")
    send_due(timezone.now())
    assert states(rule) == ["failed"] and not mail.raw
    rule.notices.all().delete()
    cast.owner.email = "owner@example.org"
    cast.owner.save()
    fail(cast, "first\nline")
    send_due(timezone.now())
    message = message_from_bytes(mail.raw[0])
    assert message["To"] == "owner@example.org" and message["Message-ID"].startswith("<notice-")
    assert "first" in message["Subject"] and states(rule) == ["sent"]


def test_mail_waits_for_its_server_and_a_refused_address_is_said(cast: Cast, mail: Receiver, settings: Any) -> None:
    ours, _ = save(cast, Where.EMAIL, "team@example.org", project=cast.project)
    theirs, _ = save(cast, Where.EMAIL, "refused@example.org", project=cast.project)
    port, settings.EMAIL_PORT = settings.EMAIL_PORT, 9
    fail(cast, "first")
    now = timezone.now()
    send_due(now)
    assert states(ours) == ["waiting"] and "E-mail does not get away" in ours.notices.get().problem
    settings.EMAIL_PORT = port
    send_due(now + timedelta(hours=1))
    assert states(ours) == ["sent"] and states(theirs) == ["failed"] and len(mail.raw) == 1
    settings.EMAIL_HOST = ""
    fail(cast, "second")
    send_due(timezone.now())
    assert ours.notices.order_by("-pk")[0].problem == "The server has no EMAIL_HOST."


def test_who_may_not_read_it_any_more_when_it_is_sent_gets_nothing(cast: Cast, receiver: Receiver) -> None:
    rule, _ = save(cast, Where.WEBHOOK, receiver.url, actor=cast.viewer)
    fail(cast, "first")
    Membership.objects.filter(user=cast.viewer).delete()
    send_due(timezone.now())
    assert not receiver.raw and states(rule) == ["failed"]


def test_the_url_is_sealed_shown_nowhere_and_opens_after_a_new_key(
    cast: Cast, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    rule, key = save(cast, Where.WEBHOOK, receiver.url)
    receiver.codes = [500]
    fail(cast, "first")
    send_due(timezone.now())
    rotate_key()
    rule.refresh_from_db()
    rows = [list(model.objects.values()) for model in (NoticeRule, Notice, AuditEntry)]
    seen = f"{rows} {caplog.text}"
    assert "s3cret" not in seen and key not in seen and rule.shown == "127.0.0.1"
    send_due(timezone.now() + timedelta(minutes=1))
    assert states(rule) == ["sent"]


def test_a_test_is_sent_by_ones_own_rules_alone(cast: Cast, receiver: Receiver) -> None:
    rule, _ = save(cast, Where.WEBHOOK, receiver.url)
    of_project, _ = save(cast, Where.WEBHOOK, receiver.url, project=cast.project)
    for wanted, refused in ((rule, NotFound), (of_project, Forbidden)):
        with pytest.raises(refused):
            actions.do_notice_rule(actor=cast.mate, rule_id=wanted.pk, verb="test")
    actions.do_notice_rule(actor=cast.owner, rule_id=of_project.pk, verb="test")
    send_due(timezone.now())
    assert [body["kind"] for body in receiver.bodies] == ["test"]
    with pytest.raises(Forbidden):
        save(cast, Where.EMAIL, "team@example.org", project=cast.project, actor=cast.mate)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"kinds": {"nonsense": ""}}, "kinds"),
        ({"kinds": {"waits": "many"}}, "kinds"),
        ({"kinds": {"waits": "-1"}}, "kinds"),
        ({"where": "pigeon"}, "where"),
        ({"where": "page", "of_project": True}, "where"),
        ({"where": "email", "of_project": True, "destination": "nobody"}, "destination"),
    ],
)
def test_a_wrong_rule_is_refused_by_its_field(cast: Cast, changes: dict[str, Any], field: str) -> None:
    project = cast.project if changes.pop("of_project", False) else None
    with pytest.raises(ValidationError) as refused:
        save(cast, **{"where": "email", "project": project, **changes})
    assert list(refused.value.message_dict) == [field]
