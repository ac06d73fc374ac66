"""Secrets that lie in rows of other things, each as one text: an envelope as JSON. Git keys and secrets of clusters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from django.db import transaction

from runs.models import Cluster, GitKey
from runs.secrets.envelope import Envelope, close_envelope, open_envelope, wrap_again
from runs.secrets.key_stores import KeyProblem, KeyStore
from runs.secrets.keys import key_store
from trainyard.contract.base import BadDocument, WireStruct, decode, encode


class SealedText(WireStruct):
    """What is stored: the fields of an envelope."""

    key_id: str
    wrapped_key: str
    ciphertext: str


class Rewrapped(NamedTuple):
    """``num_left``: those that could not be read; nothing of theirs is changed."""

    num_wrapped: int
    num_left: int


def git_key_place(project_id: str, key_id: str) -> str:
    return f"git-key/{project_id}/{key_id}"


def cluster_place(cluster_id: str, name: str) -> str:
    return f"cluster/{cluster_id}/{name}"


def seal_text(place: str, value: str) -> str:
    """Encrypt the value for its place. Raises KeyProblem."""
    return _text_of(close_envelope(key_store(), place, value))


def open_text(place: str, text: str) -> str:
    """Return the value. Raises KeyProblem."""
    envelope = _envelope_of(text)
    if envelope is None:  # a migration could not open it
        raise KeyProblem("It was stored under another SECRET_KEY of the server; enter it again.")
    return open_envelope(key_store(), place, envelope)


def wrap_texts_again(store: KeyStore) -> Rewrapped:
    """Wrap every text's data key with the newest key. Raises KeyProblem."""
    newest, num_wrapped, num_left = store.newest(), 0, 0
    for key in GitKey.objects.all():
        place = git_key_place(key.project_id, key.pk)
        if (envelope := _envelope_of(key.locked)) is None:
            num_left += 1
        elif envelope.key_id != newest:
            text = _text_of(wrap_again(store, place, envelope))
            num_wrapped += GitKey.objects.filter(pk=key.pk, locked=key.locked).update(locked=text)
    for cluster, name, text in _cluster_texts():
        if (envelope := _envelope_of(text)) is None:
            num_left += 1
        elif envelope.key_id != newest:
            again = _text_of(wrap_again(store, cluster_place(cluster.pk, name), envelope))
            num_wrapped += _replace(cluster.pk, name, text, again)
    return Rewrapped(num_wrapped, num_left)


def is_all_wrapped(newest: str) -> bool:
    """Whether no text needs another key than the newest one."""
    texts = [*GitKey.objects.values_list("locked", flat=True), *(text for _, _, text in _cluster_texts())]
    found = [envelope for text in texts if (envelope := _envelope_of(text)) is not None]
    return all(envelope.key_id == newest for envelope in found)


def _cluster_texts() -> Iterator[tuple[Cluster, str, str]]:
    for cluster in Cluster.objects.exclude(secrets={}):
        for name, text in cluster.secrets.items():
            yield cluster, name, text


def _replace(cluster_id: str, name: str, old: str, new: str) -> int:
    """Put the new text where the old one still is: somebody may have entered another secret."""
    with transaction.atomic():
        cluster = Cluster.objects.select_for_update().get(pk=cluster_id)
        if cluster.secrets.get(name) != old:
            return 0
        cluster.secrets = {**cluster.secrets, name: new}
        cluster.save(update_fields=["secrets"])
        return 1


def _text_of(envelope: Envelope) -> str:
    return encode(SealedText(*envelope))


def _envelope_of(text: str) -> Envelope | None:
    try:
        found = decode(text, SealedText)
    except BadDocument:
        return None
    return Envelope(found.key_id, found.wrapped_key, found.ciphertext)
