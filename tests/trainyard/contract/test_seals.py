"""A seal opens with its key, for its scope, in its time; a lock hides its content besides."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard.contract.base import BadDocument, BadMessage, JsonObject
from trainyard.contract.desired import Nudge
from trainyard.contract.locks import lock, unlock
from trainyard.contract.orders import Locked, Order
from trainyard.contract.seals import BadSeal, seal, unseal

KEY, OTHER = "ab" * 32, "cd" * 32
ORDER = Order(attempt="a", run="r", fence=2, spec={"task": {"environment": {"TOKEN": "hidden"}}}, slots=[0, 1])


def test_what_was_sealed_opens_as_its_type() -> None:
    assert unseal(KEY, "scope", seal(KEY, "scope", ORDER), Order) == ORDER
    assert unseal(KEY, "scope", seal(KEY, "scope", ORDER).encode(), JsonObject)["slots"] == [0, 1]


@pytest.mark.parametrize(("key", "scope"), [(OTHER, "scope"), (KEY, "other")])
def test_another_key_or_scope_opens_nothing(key: str, scope: str) -> None:
    with pytest.raises(BadSeal):
        unseal(key, scope, seal(KEY, "scope", ORDER), Order)


@pytest.mark.parametrize("text", ["", "x", "é.{}", ".{}", b"\xff\xfe"])
def test_what_is_no_seal_opens_nothing(text: str | bytes) -> None:
    with pytest.raises(BadSeal):
        unseal(KEY, "scope", text, Order)


@pytest.mark.parametrize("document", [[], 7, {"attempt": 1}, {"attempt": "a", "run": "r"}], ids=str)
def test_sealed_content_of_another_shape_is_refused(document: Any) -> None:
    with pytest.raises(BadDocument, match="the message for scope: "):
        unseal(KEY, "scope", seal(KEY, "scope", document), Order)


def test_what_is_too_old_is_refused_by_the_readers_clock() -> None:
    text = seal(KEY, "scope", Nudge(at=1_000.0))
    assert unseal(KEY, "scope", text, Nudge, max_age_s=60, now=1_050.0).at == 1_000.0
    for now in (1_061.0, 900.0):
        with pytest.raises(BadSeal, match="older than 60 s"):
            unseal(KEY, "scope", text, Nudge, max_age_s=60, now=now)


def test_what_is_locked_shows_nothing_and_opens_with_key_and_scope_alone() -> None:
    locked = lock(KEY, "scope", ORDER)
    assert "hidden" not in seal(KEY, "scope", locked)
    assert unlock(KEY, "scope", locked, Order) == ORDER
    assert lock(KEY, "scope", ORDER) != locked, "the same order looks different each time"
    flipped = Locked(("A" if locked.locked[0] != "A" else "B") + locked.locked[1:])
    for key, scope, text in ((OTHER, "scope", locked), (KEY, "other", locked), (KEY, "scope", flipped)):
        with pytest.raises(BadSeal):
            unlock(key, scope, text, Order)


@pytest.mark.parametrize("text", ["", "no base64!", "bm9uY2U="])
def test_what_is_no_lock_opens_nothing(text: str) -> None:
    with pytest.raises(BadSeal):
        unlock(KEY, "scope", Locked(text), Order)


def test_locked_content_of_another_shape_is_refused() -> None:
    with pytest.raises(BadMessage):
        unlock(KEY, "scope", lock(KEY, "scope", {"attempt": 7}), Order)


def test_a_refusal_of_locked_content_names_the_field_and_no_value() -> None:
    locked = lock(KEY, "order:a", {"attempt": "a", "spec": ["HF_TOKEN=secret"]})
    with pytest.raises(BadDocument) as caught:
        unlock(KEY, "order:a", locked, Order)
    assert "secret" not in str(caught.value)
