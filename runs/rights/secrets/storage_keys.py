"""The storage keys of projects: made, given to attempts, wrapped anew when the site's key changes, and destroyed."""

from functools import lru_cache
from secrets import token_bytes

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from runs.models import Project, StorageKey
from runs.rights.secrets.key_stores import KeyStore
from runs.rights.secrets.keys import key_store
from trainyard.at_rest.keyring import NO_KEYS, Keyring


def place_of(key: StorageKey) -> str:
    return f"storage-key/{key.project_id}/{key.number}"


def make_storage_key(project: Project) -> StorageKey:
    """Make a new version, which encrypts from now on. Raises KeyProblem."""
    store = key_store()
    while True:
        newest = project.storage_keys.order_by("-number").values_list("number", flat=True).first() or 0
        key = StorageKey(project=project, number=newest + 1)
        # The service may be slow, so it is asked outside of a transaction; of two at once each has its number.
        key.key_id, key.wrapped_key = store.wrap(token_bytes(32), place_of(key))
        try:
            with transaction.atomic():
                key.save()
        except IntegrityError:
            continue
        return key


def living_keys(project: Project) -> QuerySet[StorageKey]:
    return project.storage_keys.filter(destroyed_at=None)


def newest_number(project: Project) -> int:
    """Return the version that encrypts; 0 where there is none."""
    return living_keys(project).order_by("-number").values_list("number", flat=True).first() or 0


def keyring_of_project(project: Project) -> Keyring:
    """Return the project's keys; it encrypts where the project does. Raises KeyProblem."""
    rows = list(living_keys(project))
    if not rows:
        return NO_KEYS
    store = key_store()
    keys = {row.number: store.unwrap(row.key_id, row.wrapped_key, place_of(row)) for row in rows}
    return Keyring(max(keys) if project.encrypts_files else 0, keys)


def keyring_of_run(run_id: str) -> Keyring:
    """Return the keys of the run's project, for rows of records, which are many: this process asks the key service once
    for each key. Raises KeyProblem."""
    rows = list(StorageKey.objects.filter(project__runs=run_id, destroyed_at=None).select_related("project"))
    keys = {row.number: _unwrapped(row.key_id, row.wrapped_key, place_of(row)) for row in rows}
    return Keyring(max(keys) if keys and rows[0].project.encrypts_files else 0, keys)


@lru_cache(256)
def _unwrapped(key_id: str, wrapped_key: str, place: str) -> bytes:
    return key_store().unwrap(key_id, wrapped_key, place)


def destroy_storage_keys(project: Project) -> int:
    """Forget the keys for good and return how many there were. Nothing that they encrypted opens again, wherever a copy
    of it is; the numbers stay, so that a file can be named with the key that is gone."""
    return living_keys(project).update(wrapped_key="", key_id="", destroyed_at=timezone.now())


def wrap_storage_keys_again(store: KeyStore) -> int:
    """Wrap every storage key with the newest key. Raises KeyProblem."""
    newest, number = store.newest(), 0
    for row in StorageKey.objects.filter(destroyed_at=None).exclude(key_id=newest):
        key_id, wrapped = store.wrap(store.unwrap(row.key_id, row.wrapped_key, place_of(row)), place_of(row))
        same = StorageKey.objects.filter(pk=row.pk, wrapped_key=row.wrapped_key)
        number += same.update(key_id=key_id, wrapped_key=wrapped)
    return number


def are_storage_keys_wrapped(newest: str) -> bool:
    """Return whether no storage key needs another key than the newest one."""
    return not StorageKey.objects.filter(destroyed_at=None).exclude(key_id=newest).exists()
