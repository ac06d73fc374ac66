"""Secrets that lie in rows of other things, each as one text: an envelope as JSON. Git keys, secrets of clusters,
second factors, destinations of notices, what identity providers gave. Envelopes are closed and opened here."""

import secrets
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from allauth.mfa.models import Authenticator
from cryptography.exceptions import InvalidTag
from django.db import transaction

from runs.models import Cluster, GitKey, NoticeRule, ProviderSession
from runs.rights.secrets.key_stores import KEY_BYTES, KeyProblem, KeyStore, hidden, uncovered
from runs.rights.secrets.keys import key_store
from trainyard.contract.base import BadDocument, WireStruct, decode, encode

FACTOR_FIELDS = ("secret", "seed")  # of allauth's rows: an authenticator app's, that of recovery codes


class Envelope(WireStruct):
    """A value under a data key of its own, and that key under a key-encryption key. Both are bound to their place."""

    key_id: str
    wrapped_key: str
    ciphertext: str


class NotSealed(KeyProblem):
    """The text is no envelope: an older version stored it, and its migration could not open it."""


class StoredText(NamedTuple):
    """One sealed text in its row. ``replace`` stores another text unless the row has changed, and returns how often."""

    place: str
    text: str
    replace: Callable[[str], int]


def git_key_place(project_id: str, key_id: str) -> str:
    return f"git-key/{project_id}/{key_id}"


def cluster_place(cluster_id: str, name: str) -> str:
    return f"cluster/{cluster_id}/{name}"


def factor_place(user_id: int) -> str:
    return f"second-factor/{user_id}"


def provider_place(provider_id: str, subject: str) -> str:
    return f"provider-session/{provider_id}/{subject}"


def notice_place(rule_id: str) -> str:
    return f"notice-rule/{rule_id}"


def seal_text(place: str, value: str) -> str:
    """Encrypt the value for its place. Raises KeyProblem."""
    return encode(close_envelope(key_store(), place, value))


def open_text(place: str, text: str) -> str:
    """Return the value. Raises KeyProblem, NotSealed for what a migration could not open."""
    envelope = _envelope_of(text)
    if envelope is None:
        raise NotSealed("It was stored under another SECRET_KEY of the server; enter it again.")
    return open_envelope(key_store(), place, envelope)


def wrap_texts_again(store: KeyStore) -> int:
    """Wrap the data key of every text that can be read with the newest key; return of how many. Raises KeyProblem."""
    newest = store.newest()
    return sum(
        stored.replace(encode(wrap_again(store, stored.place, envelope)))
        for stored, envelope in readable()
        if envelope.key_id != newest
    )


def readable() -> Iterator[tuple[StoredText, Envelope]]:
    """Yield every text that is sealed with the keys of secrets, with its envelope."""
    for stored in _stored_texts():
        if (envelope := _envelope_of(stored.text)) is not None:
            yield stored, envelope


def _stored_texts() -> Iterator[StoredText]:
    for key in GitKey.objects.all():
        yield StoredText(git_key_place(key.project_id, key.pk), key.locked, _replacing(GitKey, key))
    for session in ProviderSession.objects.exclude(locked=""):
        place = provider_place(session.provider, session.subject)
        yield StoredText(place, session.locked, _replacing(ProviderSession, session))
    for rule in NoticeRule.objects.exclude(locked=""):
        yield StoredText(notice_place(rule.pk), rule.locked, _replacing(NoticeRule, rule))
    for cluster in Cluster.objects.exclude(secrets={}):
        for name, text in cluster.secrets.items():
            replace = _replacing_in(Cluster, cluster.pk, "secrets", name, text)
            yield StoredText(cluster_place(cluster.pk, name), text, replace)
    for factor in Authenticator.objects.all():
        for field in FACTOR_FIELDS:
            if text := factor.data.get(field):
                replace = _replacing_in(Authenticator, factor.pk, "data", field, text)
                yield StoredText(factor_place(factor.user_id), text, replace)


def _replacing(model: Any, row: Any) -> Callable[[str], int]:
    """Return what puts a new text where the old one still is: somebody may have entered another secret."""
    return lambda new: int(model.objects.filter(pk=row.pk, locked=row.locked).update(locked=new))


def _replacing_in(model: Any, pk: object, column: str, name: str, old: str) -> Callable[[str], int]:
    """The same for one text among the values of a JSON column, whose others may change meanwhile."""

    def replace(new: str) -> int:
        with transaction.atomic():
            row = model.objects.select_for_update().filter(pk=pk).first()
            values = getattr(row, column) if row is not None else {}
            if values.get(name) != old:
                return 0
            model.objects.filter(pk=pk).update(**{column: {**values, name: new}})
            return 1

    return replace


def _envelope_of(text: str) -> Envelope | None:
    try:
        return decode(text, Envelope)
    except BadDocument:
        return None


def close_envelope(store: KeyStore, place: str, value: str) -> Envelope:
    """Encrypt the value for its ``place`` (owner, name and version). Raises KeyProblem."""
    data_key = secrets.token_bytes(KEY_BYTES)
    return Envelope(*store.wrap(data_key, place), hidden(data_key, value.encode(), place.encode()))


def open_envelope(store: KeyStore, place: str, envelope: Envelope) -> str:
    """Return the value. Raises KeyProblem where it does not open, or belongs to another place."""
    data_key = store.unwrap(envelope.key_id, envelope.wrapped_key, place)
    try:
        return uncovered(data_key, envelope.ciphertext, place.encode()).decode()
    except (InvalidTag, ValueError) as error:
        raise KeyProblem(f"The secret {place} does not open: it was changed, or belongs to another place.") from error


def wrap_again(store: KeyStore, place: str, envelope: Envelope) -> Envelope:
    """Return the envelope with its data key under the newest key. The value is not decrypted."""
    data_key = store.unwrap(envelope.key_id, envelope.wrapped_key, place)
    return Envelope(*store.wrap(data_key, place), envelope.ciphertext)
