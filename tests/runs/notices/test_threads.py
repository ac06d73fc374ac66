"""One person's slow receivers hold up nobody else's notices."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from datetime import datetime

import pytest
from django.utils import timezone

from runs import actions
from runs.models import NoticeRule, User
from runs.models.notices import Where
from runs.notices import sending
from tests.cast import Cast
from tests.receivers import web_receiver


@contextlib.contextmanager
def silent_receiver(is_over: threading.Event) -> Iterator[tuple[str, list[socket.socket]]]:
    """Take connections, and answer none until it is over."""
    taken: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)

        def accept() -> None:
            while not is_over.is_set():
                with contextlib.suppress(TimeoutError):
                    taken.append(listener.accept()[0])

        accepting = threading.Thread(target=accept)
        accepting.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/", taken
        accepting.join(10)
        for one in taken:
            one.close()


def rule_of(user: User, url: str) -> NoticeRule:
    given = {"where": Where.WEBHOOK, "kinds": {}, "only_mine": False, "destination": url}
    rule = actions.save_notice_rule(actor=user, project=None, **given)
    actions.do_notice_rule(actor=user, rule_id=rule.pk, verb="test")
    return rule


@pytest.mark.django_db(transaction=True)
def test_whose_ten_receivers_answer_nothing_hold_two_of_the_threads(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTICE_HOSTS", "127.0.0.1")
    is_over = threading.Event()
    with web_receiver() as receiver, silent_receiver(is_over) as (url, taken):
        slow = [rule_of(cast.owner, url) for _ in range(10)]
        clock = sending.notice_clock()
        step = clock._round_once

        def until(is_so: object, now: datetime) -> None:
            for _ in range(400):
                step(now)
                if is_so():  # type: ignore[operator]
                    return
                is_over.wait(0.05)
            raise AssertionError("it took too long")

        until(lambda: len(taken) == 2, timezone.now())
        fast = rule_of(cast.mate, receiver.url)
        until(lambda: receiver.bodies, timezone.now())
        until(lambda: fast.notices.filter(state="sent").exists(), timezone.now())
        assert len(taken) == 2, "the others of the same person wait for their turn"
        is_over.set()
    for _ in range(400):  # what the threads have begun ends before the database does
        if sum(one.notices.get().tries for one in slow) == 2:
            return
        threading.Event().wait(0.05)
    raise AssertionError("the threads did not end")
