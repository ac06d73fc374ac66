"""Unusual access is found among a hundred thousand ordinary acts, and ordinary acts are left alone."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from runs.models import AuditEntry
from runs.rights.audit.unusual import Finding, network_of, unusual
from tests.runs.rights.audit.traffic import BEGIN, DAY, MINUTE, SECOND, UNKNOWN, Traffic, closed, entry

KINDS = ("network", "after it", "read within", "refused")


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.extended) for seed in range(1, 8))])
def test_ten_misuses_among_a_hundred_thousand_rows_are_found_and_nothing_else(seed: int) -> None:
    traffic = Traffic(seed, 100_000)
    rows = traffic.make()
    assert len(rows) >= 100_000
    found = Counter(kind_of(one) for one in unusual(rows, traffic.revoked))
    assert found == traffic.misuses and found.total() == 10


def usual_days(who: int = 3, days: int = 20) -> list[AuditEntry]:
    return [entry(BEGIN + k * DAY, who) for k in range(days)]


def kinds(rows: list[AuditEntry], **revoked: timedelta) -> list[str]:
    return [kind_of(one) for one in found_in(rows, **revoked)]


def kind_of(found: Finding) -> str:
    return next(words for words in KINDS if words in found[1])


def found_in(rows: list[AuditEntry], **revoked: timedelta) -> list[Finding]:
    return unusual(sorted(rows, key=lambda row: row.at), {name: BEGIN + at for name, at in revoked.items()})


def test_a_new_network_is_named_once_and_with_the_token() -> None:
    new = [entry(BEGIN + (30 + k) * DAY, 3, address="192.0.2.9", token="abc laptop") for k in range(3)]
    [found] = found_in([*usual_days(), *new])
    assert found[1] == "The first act from the network 192.0.2.0/24 by the token abc."
    assert found[0] == new[0]


def test_networks_of_somebody_new_are_learned() -> None:
    assert kinds([*usual_days(days=5), entry(BEGIN + 5 * DAY, 3, address="192.0.2.9")]) == []


def test_another_address_of_the_same_network_is_not_new() -> None:
    assert kinds([*usual_days(), entry(BEGIN + 30 * DAY, 3, address="::ffff:198.51.100.99")]) == []


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("198.51.100.7", "198.51.100.0/24"),
        ("::ffff:198.51.100.7", "198.51.100.0/24"),
        ("2001:db8:1:2::3", "2001:db8:1::/48"),
        ("", ""),
        ("socket", ""),
    ],
)
def test_a_network_is_what_a_provider_hands_out(address: str, network: str) -> None:
    assert network_of(address) == network


def test_tries_that_are_one_row_count_as_many() -> None:
    tries = [entry(BEGIN + k * MINUTE, address="192.0.2.9", result=UNKNOWN, repeats=16) for k in range(2)]
    assert kinds(tries) == ["refused"]


def test_mistakes_and_slow_tries_are_no_burst() -> None:
    mistakes = [entry(BEGIN + k * SECOND, 3, result="refused: 422") for k in range(100)]
    slow = [entry(BEGIN + k * MINUTE, 4, result="refused: 403") for k in range(100)]
    assert kinds([*mistakes, *slow]) == []


def reads(number: int, at: timedelta, who: int = 3) -> list[AuditEntry]:
    each = enumerate([10 * SECOND] * number)
    return [entry(BEGIN + at + k * step, who, "runs.logs.text.read", object=f"run {k}") for k, step in each]


def test_reading_a_hundred_things_within_an_hour_is_told_once() -> None:
    [found] = found_in([*reads(1, timedelta(0)), *reads(300, 30 * DAY)])
    assert found[1] == "100 different things were read within an hour."


def test_a_raid_across_the_hour_does_not_make_itself_usual() -> None:
    first, second = reads(90, 30 * DAY), reads(190, 30 * DAY + 20 * MINUTE)
    assert kinds([*reads(1, timedelta(0)), *first, *second[90:]]) == ["read within"]


def test_reading_the_same_thing_again_and_as_much_as_always_is_usual() -> None:
    same = [entry(row.at, 3, row.action, object="run 1") for row in reads(300, 30 * DAY)]
    always = [row for day in range(0, 40, 4) for row in reads(200, day * DAY, who=4)]
    assert kinds([*reads(1, timedelta(0)), *same, *always]) == []


def test_an_account_that_acts_after_it_was_closed_is_told() -> None:
    gone = BEGIN + 30 * DAY
    [found] = found_in([*usual_days(), closed(gone, 3), entry(gone + DAY, 3), entry(gone + 2 * DAY, 3)])
    assert found[1] == "An account was used after it was closed."


def test_a_deleted_account_counts_as_closed() -> None:
    gone = entry(BEGIN + 30 * DAY, 1, before='{"user 3":{"username":"ann"}}')
    assert kinds([*usual_days(), gone, entry(BEGIN + 31 * DAY, 3)]) == ["after it"]


def test_somebody_who_is_back_and_a_request_under_way_are_usual() -> None:
    gone = BEGIN + 30 * DAY
    back = [closed(gone + DAY, 3, is_active=True), entry(gone + 2 * DAY, 3)]
    assert kinds([*usual_days(), closed(gone, 3), entry(gone + 30 * SECOND, 3), *back]) == []


def test_a_revoked_token_that_is_refused_is_told() -> None:
    [found] = found_in([entry(BEGIN + DAY, token="abc ci", result="refused: 401")], abc=timedelta(0))
    assert found[1] == "A token was used after it was revoked, and was refused."
