"""A project's storage keys: who switches them on, which attempts get them, and what becomes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from runs.life.reconcile.desired import order_for
from runs.models import AuditEntry, StorageKey
from runs.rights.secrets import store
from runs.rights.secrets.delivery import give
from runs.rights.secrets.key_stores import FileKeys, KeyProblem
from runs.rights.secrets.storage_keys import keyring_of_project, place_of
from runs.values.status import Status
from tests.cast import Cast, make_attempt, make_node, make_run, spec
from tests.runs.api.conftest import Api
from trainyard.at_rest.keyring import VARIABLE, keyring_of

PATH = "/projects/default/encryption"


@pytest.fixture(autouse=True)
def own_keys(tmp_path: Path, settings: Any) -> FileKeys:
    settings.HOME = tmp_path
    return FileKeys(tmp_path / "secrets.key")


def switch(cast: Cast, **body: Any) -> Any:
    answer = Api(cast.owner)("PUT", PATH, {"encrypts": True, **body})
    cast.project.refresh_from_db()
    return answer.json()


def test_attempts_of_recipes_get_all_keys_and_scripts_and_other_projects_none(cast: Cast) -> None:
    node = make_node(cast.cluster)
    attempt = make_attempt(make_run(cast, spec=spec()), [node])
    assert not order_for(attempt.placements.get()).has_storage_keys and give(node, attempt.pk)[1].secrets == []
    assert switch(cast)["storage_key"] == 1
    assert switch(cast, new_key=True)["storage_key"] == 2
    (given,) = give(node, attempt.pk)[1].secrets
    keyring = keyring_of(given.value)
    assert (given.variable, given.is_file, keyring.newest, sorted(keyring.keys)) == (VARIABLE, True, 2, [1, 2])
    order = order_for(attempt.placements.get())
    assert order.has_storage_keys and given.value not in str(order)
    read = [str(row.after) for row in AuditEntry.objects.filter(action="secrets.read")]
    assert any("storage key" in one and "2" in one for one in read) and given.value not in str(read)
    other = make_node(cast.cluster)
    script = make_attempt(make_run(cast, spec=spec(task={"script": "train.py"}, code={"bundle": "x"})), [other])
    assert not order_for(script.placements.get()).has_storage_keys and give(other, script.pk)[1].secrets == []
    switch(cast, encrypts=False)
    off = keyring_of(give(node, attempt.pk)[1].secrets[0].value)
    assert (off.newest, sorted(off.keys)) == (0, [1, 2]), "what was encrypted opens still"


def test_a_row_holds_nothing_readable_and_opens_for_its_project_and_number_alone(
    cast: Cast, own_keys: FileKeys
) -> None:
    switch(cast, new_key=True)
    first, second = StorageKey.objects.all()
    key = keyring_of_project(cast.project).keys[1]
    assert (
        key.hex() not in first.wrapped_key and own_keys.unwrap(first.key_id, first.wrapped_key, place_of(first)) == key
    )
    with pytest.raises(KeyProblem):
        own_keys.unwrap(first.key_id, first.wrapped_key, place_of(second))


def test_the_sites_key_changes_and_storage_keys_go_with_it(cast: Cast, own_keys: FileKeys) -> None:
    switch(cast, new_key=True)
    before, former = keyring_of_project(cast.project), own_keys.newest()
    assert store.rotate_key().num_wrapped == 2
    assert own_keys.newest() != former and former not in (settings.HOME / "secrets.key").read_text()
    assert keyring_of_project(cast.project) == before


def test_destroyed_keys_are_gone_and_a_new_one_encrypts_from_then_on(cast: Cast) -> None:
    owner = Api(cast.owner)
    switch(cast)
    first = keyring_of_project(cast.project).keys[1]
    run = make_run(cast, status=Status.RUNNING)
    assert owner("POST", f"{PATH}/destroy", {"confirm": "defau1t"}).status_code == 409
    answer = owner("POST", f"{PATH}/destroy", {"confirm": "default"})
    assert answer.status_code == 409 and "Stop what runs first." in answer.json()["detail"]
    run.delete()
    assert owner("POST", f"{PATH}/destroy", {"confirm": "default"}).json()["storage_key"] == 2
    gone = StorageKey.objects.get(number=1)
    assert (gone.wrapped_key, gone.key_id) == ("", "") and gone.destroyed_at is not None
    keyring = keyring_of_project(cast.project)
    assert sorted(keyring.keys) == [2] and keyring.keys[2] != first
    assert store.rotate_key().num_wrapped == 1


def test_without_a_key_it_is_not_switched_on(cast: Cast, settings: Any) -> None:
    settings.SECRETS_KMS = "nothing:"
    answer = Api(cast.owner)("PUT", PATH, {"encrypts": True})
    assert answer.status_code == 409 and "TRAINYARD_SECRETS_KMS must begin with" in answer.json()["detail"]
    cast.project.refresh_from_db()
    assert not cast.project.encrypts_files
