"""Secrets in the database: set, found, opened, deleted, and wrapped anew when the key changes."""

from typing import NamedTuple

import structlog
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone
from msgspec.structs import asdict

from runs.models import Project, Secret, SecretVersion, StorageKey, User
from runs.rights.secrets import sealed, storage_keys
from runs.rights.secrets.key_stores import KeyProblem, KeyStore
from runs.rights.secrets.keys import key_store
from runs.rights.secrets.storage_keys import are_storage_keys_wrapped, wrap_storage_keys_again
from trainyard.contract.limits import MAX_SECRET_BYTES

log = structlog.get_logger(__name__)

KEPT_VERSIONS = 5  # older ones are deleted: what was rotated away is not to be had for ever
AT_ONCE = 100


class Rotation(NamedTuple):
    """Result of a change of the key."""

    sentence: str
    num_wrapped: int


def secrets_of(owner: Project | User) -> QuerySet[Secret]:
    return Secret.objects.filter(project=owner) if isinstance(owner, Project) else Secret.objects.filter(person=owner)


def problem_of(value: str) -> str:
    """Return what is wrong with a value, which is not quoted; empty where nothing is."""
    if not value:
        return "A value is needed."
    if "\0" in value:
        return "A value has no NUL: no variable can hold one."
    if len(value.encode(errors="replace")) > MAX_SECRET_BYTES:
        return f"A value has at most {MAX_SECRET_BYTES:,} bytes."
    return ""


def place_of(secret: Secret, number: int) -> str:
    """Return what the encryption of a version is bound to: it opens for no other owner, name or version."""
    return f"secret/{secret.owner}/{secret.name}/{number}"


def keep(*, owner: Project | User, name: str, value: str, by: User) -> Secret:
    """Make the value the newest version of the name. Raises KeyProblem."""
    store, now = key_store(), timezone.now()
    whose = {"project": owner} if isinstance(owner, Project) else {"person": owner}
    with transaction.atomic():
        made, _ = Secret.objects.get_or_create(**whose, name=name, defaults={"created_by": by})
    # The service may be slow, so it is asked outside of a transaction; two at once have two numbers.
    while True:
        secret = Secret.objects.get(pk=made.pk)
        number = secret.version + 1
        envelope = sealed.close_envelope(store, place_of(secret, number), value)
        try:
            with transaction.atomic():
                SecretVersion.objects.create(secret=secret, number=number, created_by=by, **asdict(envelope))
                Secret.objects.filter(pk=secret.pk).update(version=number, changed_at=now)
                SecretVersion.objects.filter(secret=secret, number__lte=number - KEPT_VERSIONS).delete()
        except IntegrityError:
            continue
        secret.version, secret.changed_at = number, now
        return secret


def open_newest(secret: Secret) -> tuple[int, str]:
    """Return the newest version's number and value. Raises KeyProblem."""
    row = SecretVersion.objects.get(secret=secret, number=secret.version)
    envelope = sealed.Envelope(row.key_id, row.wrapped_key, row.ciphertext)
    return row.number, sealed.open_envelope(key_store(), place_of(secret, row.number), envelope)


def rotate_key() -> Rotation:
    """Make a new key, and wrap the data keys of all versions with it while everything runs: both keys open meanwhile.
    Raises KeyProblem; then nothing is lost, and the same again goes on."""
    store = key_store()
    sentence = store.rotate()
    number = _wrap_all(store) + sealed.wrap_texts_again(store) + wrap_storage_keys_again(store)
    newest = store.newest()
    is_done = not SecretVersion.objects.exclude(key_id=newest).exists() and are_storage_keys_wrapped(newest)
    is_done = is_done and all(envelope.key_id == newest for _, envelope in sealed.readable())
    if is_done or not newest:
        store.forget_others()
    log.info("secrets.key_rotated", versions=number)
    return Rotation(sentence, number)


def what_does_not_open() -> str:
    """Return a sentence about stored secrets that no key of this server opens; empty where all open. One of each key is
    tried."""
    found = {
        row.key_id: (row.wrapped_key, place_of(row.secret, row.number))
        for row in SecretVersion.objects.select_related("secret").defer("ciphertext")
    }
    living = StorageKey.objects.filter(destroyed_at=None)
    found |= {row.key_id: (row.wrapped_key, storage_keys.place_of(row)) for row in living}
    found |= {envelope.key_id: (envelope.wrapped_key, stored.place) for stored, envelope in sealed.readable()}
    try:
        for key_id, (wrapped, place) in found.items():
            key_store().unwrap(key_id, wrapped, place)
    except KeyProblem as error:
        return f"Secrets do not open: {error}"
    return ""


def _wrap_all(store: KeyStore) -> int:
    number, last = 0, 0
    versions = SecretVersion.objects.select_related("secret").order_by("pk")
    while rows := list(versions.filter(pk__gt=last)[:AT_ONCE]):
        last, newest = rows[-1].pk, store.newest()
        for row in rows:
            if row.key_id == newest:
                continue
            before = sealed.Envelope(row.key_id, row.wrapped_key, row.ciphertext)
            after = sealed.wrap_again(store, place_of(row.secret, row.number), before)
            # A version never changes but for its wrapping: whoever was first has wrapped it with a key that opens.
            same = SecretVersion.objects.filter(pk=row.pk, wrapped_key=row.wrapped_key)
            number += same.update(key_id=after.key_id, wrapped_key=after.wrapped_key)
    return number
