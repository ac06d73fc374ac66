"""Pauses between passwords that are tried, counted in a real Valkey."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from limits import parse_many

from runs.serving import login_limits as guessing
from runs.serving.login_limits import claim, forget, network
from tests.servers import Valkey

pytestmark = pytest.mark.usefixtures("valkey")
HERE, THERE = "192.0.2.1", "198.51.100.7"


def try_often(num: int, *, account: str = "ann", address: str = HERE, browser: str = "") -> list[int]:
    """Return how long each attempt has to wait; 0: it was let through."""
    return [claim(account=account, address=address, browser=browser) for _ in range(num)]


@contextmanager
def short_pauses() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guessing, "BY_ACCOUNT", parse_many("2/second;4/10 seconds"))
        yield


def test_a_few_attempts_are_free_and_then_there_is_a_pause() -> None:
    waits = try_often(60)
    assert waits[:5] == [0] * 5
    assert all(0 < wait <= 60 for wait in waits[5:])


def test_pauses_grow() -> None:
    pauses = [limit.get_expiry() for limit in guessing.BY_ACCOUNT]
    attempts = [limit.amount for limit in guessing.BY_ACCOUNT]
    assert pauses == sorted(pauses) and attempts == sorted(attempts) and pauses[-1] == 24 * 3600
    with short_pauses():
        assert try_often(3)[:2] == [0, 0] and 0 < claim(account="ann", address=HERE) <= 1
        wait_for(1.1)
        assert try_often(2) == [0, 0]
        wait_for(1.1)
        assert claim(account="ann", address=HERE) >= 1  # the short pause is over, the longer one is not


def test_a_pause_ends_whatever_is_sent_meanwhile() -> None:
    with short_pauses():
        try_often(2)
        assert all(try_often(50))
        wait_for(1.1)
        assert claim(account="ann", address=HERE) == 0


def test_another_account_from_the_same_address_may_try_until_the_address_has_its_pause() -> None:
    try_often(6)
    assert claim(account="bob", address=HERE) == 0
    waits = [claim(account=f"person-{number}", address=HERE) for number in range(40)]
    assert waits[0] == 0 and waits[-1] > 0
    assert claim(account="eve", address=THERE) == 0


def test_an_account_has_its_pause_wherever_the_attempts_come_from() -> None:
    waits = [claim(account="ann", address=f"192.0.2.{number}") for number in range(20)]
    assert waits.count(0) == 5


def test_a_stranger_does_not_keep_a_person_out_of_the_browser_that_they_use() -> None:
    try_often(60, address=THERE)
    assert claim(account="ann", address=HERE) > 0
    assert claim(account="ann", address=HERE, browser="laptop") == 0
    assert try_often(60, browser="laptop").count(0) == 4  # which has limits of its own


def test_after_the_right_password_the_account_starts_anew_and_the_address_does_not() -> None:
    try_often(5)
    forget(account="ann")
    assert try_often(5) == [0] * 5
    for _ in range(20):
        forget(account="ann")
        claim(account="ann", address=HERE)
    forget(account="ann")
    assert claim(account="ann", address=HERE) > 0


def test_attempts_at_once_are_counted_one_by_one() -> None:
    waits: list[int] = []
    threads = [threading.Thread(target=lambda: waits.append(claim(account="ann", address=HERE))) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(waits) == 30 and waits.count(0) <= 5


def test_without_valkey_each_process_counts_for_itself(valkey: Valkey) -> None:
    valkey.stop()
    name = "without-valkey"
    waits = [claim(account=name, address=None) for _ in range(8)]
    assert waits[:5] == [0] * 5 and all(waits[5:])
    forget(account=name)
    assert claim(account=name, address=None) == 0


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:2", "2001:db8::/64"),
        ("", "unknown"),
        ("no address", "unknown"),
    ],
)
def test_what_one_person_can_have_of_addresses_counts_as_one(address: str, expected: str) -> None:
    assert network(address) == expected


def wait_for(seconds: float) -> None:
    threading.Event().wait(seconds)
