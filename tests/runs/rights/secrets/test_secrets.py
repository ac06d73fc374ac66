"""Secrets over REST, at rest, under changing keys, and on their way to a node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from runs import actions
from runs.models import AuditEntry, Secret, SecretUse, SecretVersion, User
from runs.rights.secrets import store
from runs.rights.secrets.delivery import NotPlaced, SecretMissing, give
from runs.rights.secrets.key_stores import EnvironmentKeys, FileKeys, KeyProblem
from runs.rights.secrets.sealed import Envelope, open_envelope
from runs.values.status import Phase
from tests.cast import Cast, make_attempt, make_node, make_run, spec
from tests.runs.api.conftest import Api
from trainyard.spec import SpecError, parse_spec

VALUE = "hf_0123456789 and more"
PATH = "/projects/default/secrets"


@pytest.fixture(autouse=True)
def own_keys(tmp_path: Path, settings: Any) -> FileKeys:
    settings.HOME = tmp_path
    return FileKeys(tmp_path / "secrets.key")


def keep(cast: Cast, name: str = "HF_TOKEN", value: str = VALUE) -> Secret:
    return actions.set_secret(actor=cast.owner, project=cast.project, name=name, value=value)


def test_a_value_goes_in_and_never_comes_out(cast: Cast) -> None:
    owner = Api(cast.owner)
    assert owner("PUT", f"{PATH}/HF_TOKEN", {"value": VALUE}).status_code == 204
    assert owner("PUT", f"{PATH}/HF_TOKEN", {"value": f"{VALUE} 2"}).status_code == 204
    listed = Api(cast.mate)("GET", PATH)
    assert [(one["name"], one["version"]) for one in listed.json()["items"]] == [("HF_TOKEN", 2)]
    assert VALUE not in listed.content.decode()
    assert owner("DELETE", f"{PATH}/HF_TOKEN").status_code == 204
    assert owner("DELETE", f"{PATH}/HF_TOKEN").status_code == 404
    assert not SecretVersion.objects.exists()
    kept = [f"{row.before}{row.after}{row.object}" for row in AuditEntry.objects.all()]
    assert not any(VALUE in text for text in kept)
    assert AuditEntry.objects.filter(action="projects.secrets.set", object="secret HF_TOKEN").count() == 2


@pytest.mark.parametrize(
    ("name", "value"), [("1BAD", "x"), ("A-B", "x"), ("GOOD", ""), ("GOOD", "a\0b"), ("GOOD", "x" * 70_000)]
)
def test_bad_names_and_values_are_refused_without_quoting_them(cast: Cast, name: str, value: str) -> None:
    answer = Api(cast.owner)("PUT", f"{PATH}/{name}", {"value": value})
    assert answer.status_code == 422
    assert not value or value not in answer.json()["detail"]


def test_the_database_holds_nothing_readable_and_a_row_opens_at_its_place_alone(cast: Cast) -> None:
    secret = keep(cast)
    row = SecretVersion.objects.get()
    assert VALUE not in f"{row.ciphertext}{row.wrapped_key}{row.key_id}"
    envelope = Envelope(row.key_id, row.wrapped_key, row.ciphertext)
    keys = FileKeys(settings.HOME / "secrets.key")
    assert open_envelope(keys, store.place_of(secret, 1), envelope) == VALUE
    for place in (store.place_of(secret, 2), "secret/project:x/HF_TOKEN/1"):
        with pytest.raises(KeyProblem):
            open_envelope(keys, place, envelope)
    assert (settings.HOME / "secrets.key").stat().st_mode & 0o777 == 0o600


def test_the_key_changes_while_everything_runs(cast: Cast, own_keys: FileKeys) -> None:
    secret = keep(cast)
    keep(cast, "OTHER", "second")
    before = own_keys.newest()
    done = store.rotate_key()
    assert done.num_wrapped == 2 and own_keys.newest() != before
    assert store.open_newest(secret) == (1, VALUE)
    assert before not in (settings.HOME / "secrets.key").read_text()


def test_a_change_of_key_that_was_interrupted_loses_nothing(
    cast: Cast, own_keys: FileKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = keep(cast)

    def fail(*_: object) -> int:
        raise KeyProblem("away")

    with monkeypatch.context() as context:
        context.setattr(store, "_wrap_all", fail)
        with pytest.raises(KeyProblem):
            store.rotate_key()
    assert store.open_newest(secret) == (1, VALUE)  # under the older of two keys
    assert store.rotate_key().num_wrapped == 1
    assert store.open_newest(secret) == (1, VALUE)


def test_keys_of_the_environment(cast: Cast) -> None:
    first = "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE="
    second = "YmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmI="
    old, both = EnvironmentKeys(f"one:{first}"), EnvironmentKeys(f"two:{second},one:{first}")
    key_id, wrapped = old.wrap(b"k" * 32, "place")
    assert both.unwrap(key_id, wrapped, "place") == b"k" * 32 and both.newest() == "two"
    with pytest.raises(KeyProblem, match="holds one key"):
        old.rotate()
    with pytest.raises(KeyProblem, match=r"Key 1 of") as refused:
        EnvironmentKeys("tooshort:YWFh")
    assert "YWFh" not in str(refused.value)


def test_a_key_file_that_others_may_read_is_refused(own_keys: FileKeys) -> None:
    own_keys.newest()
    (settings.HOME / "secrets.key").chmod(0o644)
    with pytest.raises(KeyProblem, match="chmod 600"):
        own_keys.newest()


def with_secrets(*references: str) -> dict[str, Any]:
    return spec(task={"recipe": "language-model", "secrets": list(references)})


def test_a_spec_that_names_a_missing_secret_is_refused(cast: Cast) -> None:
    make_node(cast.cluster)
    with pytest.raises(SpecError, match=r"task.secrets.0.*no secret HF_TOKEN"):
        actions.submit_run(actor=cast.mate, document=with_secrets("HF_TOKEN"))
    keep(cast)
    run = actions.submit_run(actor=cast.mate, document=with_secrets("HF_TOKEN"))
    assert run.spec["task"]["secrets"] == ["HF_TOKEN"]


@pytest.mark.parametrize(
    ("references", "words"),
    [
        (["1X"], "must be NAME or VARIABLE=NAME"),
        (["A", "A"], "each variable once"),
        (["RANK=A"], "which the node sets itself"),
    ],
)
def test_bad_references_are_refused(references: list[str], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        parse_spec(with_secrets(*references))


def test_a_machine_that_took_a_silent_nodes_name_gets_no_secrets_of_what_began_there_before(cast: Cast) -> None:
    keep(cast)
    node = make_node(cast.cluster, "a", seen_at=None)
    attempt = make_attempt(make_run(cast, spec=with_secrets("KEY=HF_TOKEN")), [node], phase=Phase.RUNNING)
    assert give(node, attempt.pk)[1].secrets
    _, secret = actions.new_join_token(actor=cast.owner, cluster=cast.cluster)
    other = actions.join_node(secret=secret, name="a")
    assert other.pk == node.pk
    with pytest.raises(NotPlaced, match="before this machine joined"):
        give(other, attempt.pk)
    attempt.ended_at = timezone.now()
    attempt.save()
    later = make_attempt(make_run(cast, spec=with_secrets("KEY=HF_TOKEN")), [make_node(cast.cluster)])
    later.placements.update(node=other, phase=Phase.RUNNING)
    assert give(other, later.pk)[1].secrets


def test_a_node_gets_the_secrets_of_attempts_that_are_placed_there(cast: Cast) -> None:
    keep(cast)
    actions.set_secret(actor=cast.mate, name="MINE", value="of mate")
    node, other = make_node(cast.cluster), make_node(cast.cluster)
    run = make_run(cast, spec=with_secrets("KEY=HF_TOKEN", "F=file:mine:MINE"))
    attempt = make_attempt(run, [node])
    _, given = give(node, attempt.pk)
    assert [(one.variable, one.value, one.is_file) for one in given.secrets] == [
        ("KEY", VALUE, False),
        ("F", "of mate", True),
    ]
    give(node, attempt.pk)  # a node worker that was restarted asks again
    assert {(use.name, use.version, use.is_personal) for use in SecretUse.objects.all()} == {
        ("HF_TOKEN", 1, False),
        ("MINE", 1, True),
    }
    read = AuditEntry.objects.filter(action="secrets.read").first()
    assert read is not None and (read.actor, read.project) == (f"node {node.name}", "default")
    with pytest.raises(NotPlaced):
        give(other, attempt.pk)
    Secret.objects.all().delete()
    with pytest.raises(SecretMissing, match="no secret HF_TOKEN"):
        give(node, attempt.pk)
    assert SecretUse.objects.count() == 2
    shown = Api(cast.viewer)("GET", f"/runs/{run.pk}/secrets").json()["items"]
    assert next((one["name"], one["version"], one["node"]) for one in shown) == ("HF_TOKEN", 1, node.name)


def test_a_personal_secret_is_not_given_once_its_person_left_the_project(cast: Cast) -> None:
    actions.set_secret(actor=cast.mate, project=None, name="MINE", value=VALUE)
    node = make_node(cast.cluster)
    attempt = make_attempt(make_run(cast, spec=with_secrets("F=mine:MINE")), [node])
    assert len(give(node, attempt.pk)[1].secrets) == 1
    actions.remove_member(actor=cast.owner, project=cast.project, user=cast.mate)
    with pytest.raises(SecretMissing, match="not in project default any more"):
        give(node, attempt.pk)


def test_only_an_administrator_changes_the_key(cast: Cast) -> None:
    assert Api(cast.owner)("POST", "/secrets/rotate-key").status_code == 403
    keep(cast)
    chief = User.objects.create(username="chief", is_superuser=True)
    assert Api(chief)("POST", "/secrets/rotate-key").json()["versions"] == 1
