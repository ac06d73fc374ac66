"""An erased person is gone from rows and sentences, stays gone after a restore, and the audit stays verifiable."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from runs import actions
from runs.models import AuditEntry, ErasedPerson, Event, Invitation, Membership, Role, Run, RunCode, Token, User
from runs.presenting.audit_rows import AuditFilters, filtered, json_lines
from runs.privacy import erasure
from runs.rights.access import Forbidden
from runs.rights.audit import chain
from runs.rights.audit.facts import Act
from runs.rights.audit.pseudonyms import shown
from runs.values.refused import Refused
from runs.values.status import Status
from tests.cast import Cast, make_run, make_user

NOW = timezone.now()


@pytest.fixture(autouse=True)
def home(settings: Any, tmp_path: Path) -> Path:
    settings.HOME = tmp_path
    settings.ERASURES_FILE = str(tmp_path / "erasures.jsonl")
    return tmp_path


def ended(cast: Cast, **changes: Any) -> Run:
    return make_run(cast, status=Status.SUCCEEDED, **changes)


def erase(user: User, **options: Any) -> ErasedPerson:
    return actions.erase_person(actor=user, user=user, confirm=user.username, **options)


def test_what_is_theirs_goes_and_what_is_the_projects_stays_without_their_name(cast: Cast) -> None:
    run = ended(cast)
    RunCode.objects.create(run=run, sha256="a" * 64, url="https://git", commit="b" * 40, author="Mate <m@example.com>")
    run.record("submitted", "Submitted by mate.", actor=cast.mate)
    run.record("noted", "A team mate is no name. Stopped by mate.")
    actions.create_token(actor=cast.mate, name="CI")
    actions.set_secret(actor=cast.mate, name="OWN", value="x")
    number = cast.mate.pk
    erase(cast.mate)
    assert not User.objects.filter(pk=number).exists()
    assert not Token.objects.exists() and not Membership.objects.filter(user=number).exists()
    run.refresh_from_db()
    assert run.created_by is None and RunCode.objects.get().author == ""
    pseudonym = f"erased person {number}"
    sentences = list(Event.objects.order_by("pk").values_list("sentence", flat=True))
    assert sentences == [f"Submitted by {pseudonym}.", f"A team mate is no name. Stopped by {pseudonym}."]


def test_their_runs_go_with_them_where_they_want_it(cast: Cast) -> None:
    run, other = ended(cast), ended(cast, created_by=cast.owner)
    row = erase(cast.mate, with_runs=True)
    assert row.runs == [run.pk] and list(Run.objects.all()) == [other]


def test_the_address_of_the_invitation_by_which_they_came_goes(cast: Cast) -> None:
    values = {"project": cast.project, "created_by": cast.owner, "expires_at": NOW + timedelta(days=1)}
    came = Invitation.objects.create(
        digest="a", email="m@example.com", accepted_by=cast.mate, accepted_at=NOW, **values
    )
    Invitation.objects.create(digest="b", email="other@example.com", **values)
    erase(cast.mate)
    came.refresh_from_db()
    assert came.email == "" and Invitation.objects.filter(email="other@example.com").exists()


@pytest.mark.parametrize("confirm", ["", "Mate", "owner"])
def test_without_the_right_name_nothing_happens(cast: Cast, confirm: str) -> None:
    with pytest.raises(Refused, match="Type the user name"):
        actions.erase_person(actor=cast.mate, user=cast.mate, confirm=confirm)
    assert User.objects.filter(pk=cast.mate.pk).exists()


def test_what_has_to_be_done_first_is_said(cast: Cast) -> None:
    with pytest.raises(Refused, match="Nobody else is owner of default"):
        erase(cast.owner)
    run = make_run(cast, status=Status.RUNNING)
    with pytest.raises(Refused, match=f"{run.name} still goes on"):
        erase(cast.mate)
    root = make_user("root", is_superuser=True)
    with pytest.raises(Refused, match="last administrator"):
        erase(root)
    with pytest.raises(Forbidden):
        actions.erase_person(actor=cast.owner, user=cast.mate, confirm="mate")
    account = actions.create_service_account(actor=cast.owner, project=cast.project, name="ci", role=Role.VIEWER)
    with pytest.raises(Refused, match="no person"):
        actions.erase_person(actor=root, user=account, confirm=account.username)
    assert not ErasedPerson.objects.exists() and not erasure.list_path().exists()


def test_whoever_lost_the_right_since_the_request_began_erases_nobody(cast: Cast) -> None:
    root = make_user("root", is_superuser=True)
    User.objects.filter(pk=root.pk).update(is_superuser=False)
    with pytest.raises(Forbidden):
        actions.erase_person(actor=root, user=cast.mate, confirm="mate")
    assert User.objects.filter(pk=cast.mate.pk, is_active=True).exists() and not erasure.list_path().exists()


def test_two_who_are_erased_at_once_do_not_count_on_each_other(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    User.objects.update(is_superuser=False)
    first, second = make_user("first", is_superuser=True), make_user("second", is_superuser=True)
    Membership.objects.filter(project=cast.project, role=Role.OWNER).delete()
    for user in (first, second):
        Membership.objects.create(project=cast.project, user=user, role=Role.OWNER)
    monkeypatch.setattr(erasure, "carry_out", lambda *_: None)  # it takes a while
    erase(first)
    with pytest.raises(Refused, match="last administrator"):
        erase(second)
    User.objects.filter(pk=cast.owner.pk).update(is_superuser=True)
    with pytest.raises(Refused, match="Nobody else is owner of default"):
        erase(second)


def test_an_older_copy_of_the_database_does_not_bring_them_back(cast: Cast) -> None:
    """The attack: a backup from before the erasure is restored elsewhere, with the list that is newer than it."""
    run = ended(cast)
    before = transaction.savepoint()
    row = erase(cast.mate, with_runs=True)
    transaction.savepoint_rollback(before)
    assert User.objects.filter(username="mate").exists() and Run.objects.filter(pk=run.pk).exists(), "restored"
    assert erasure.catch_up() == 1
    assert not User.objects.filter(username="mate").exists() and not Run.objects.filter(pk=run.pk).exists()
    assert ErasedPerson.objects.get().digest == row.digest
    assert AuditEntry.objects.get(action="person.erase-again").object == f"user {row.number}"
    assert erasure.catch_up() == 0, "once"


def test_somebody_new_with_the_number_of_an_erased_one_is_left_alone(cast: Cast) -> None:
    number = cast.mate.pk
    before = transaction.savepoint()
    erase(cast.mate)
    transaction.savepoint_rollback(before)
    User.objects.filter(pk=number).delete()
    new = User(pk=number, username="new", date_joined=NOW + timedelta(days=1))
    new.save(force_insert=True)
    assert erasure.catch_up() == 0 and User.objects.filter(username="new").exists()


def test_a_list_that_somebody_else_wrote_erases_nobody(cast: Cast) -> None:
    row = ErasedPerson(number=cast.mate.pk, digest=erasure.digest_of(cast.mate), at=NOW)
    line = erasure.line_of(row)
    erasure.list_path().write_text(line.replace(f'"number":{row.number}', f'"number":{cast.owner.pk}') + "\n")
    with pytest.raises(erasure.BadList, match="Line 1"):
        erasure.catch_up()
    erasure.list_path().write_text(f"{line}\n{line[:40]}")
    assert erasure.catch_up() == 1, "a line that was cut off while it was written is none"


def test_the_audit_stays_intact_and_names_them_nowhere_that_people_look(cast: Cast) -> None:
    mate = User.objects.get(pk=cast.mate.pk)
    mate.email = "m@example.com"
    mate.save()
    chain.append(Act(actor="mate", actor_number=mate.pk, token="t1 laptop", address="10.0.0.7", action="runs.stop",
                     object="run x", project="default", result="ok"))  # fmt: skip
    chain.append(Act(actor="root", actor_number=999, action="admin.change", object="user mate", result="ok",
                     before={f"user {mate.pk}": {"username": "mate", "email": "m@example.com"}}))  # fmt: skip
    rows = list(AuditEntry.objects.order_by("sequence").values())
    erase(mate)
    assert chain.verify().fault is None
    assert list(AuditEntry.objects.order_by("sequence").values())[:2] == rows, "no row was touched"
    first, second = shown(AuditEntry.objects.order_by("sequence"))
    assert (first["actor"], first["token"], first["address"]) == (f"erased person {mate.pk}", "…", "…")
    assert (
        second["object"] == f"user erased person {mate.pk}" and first["is_pseudonymous"] and second["is_pseudonymous"]
    )
    shown_in_admin = admin.site._registry[AuditEntry]
    row = AuditEntry.objects.get(sequence=2)
    assert f"{shown_in_admin.what(row)}{shown_in_admin.values(row)}".count("mate") == 0  # type: ignore[attr-defined]
    text = "".join(json_lines(AuditEntry.objects.all()))
    assert not [word for word in ("mate", "m@example.com", "10.0.0.7", "laptop") if word in text]
    assert not filtered(AuditEntry.objects.all(), AuditFilters(actor="mate")).exists()
    found = filtered(AuditEntry.objects.all(), AuditFilters(actor=f"erased person {mate.pk}"))
    assert [one.action for one in found] == ["runs.stop"]


def test_whoever_erases_themselves_over_rest_leaves_a_row_without_a_name(cast: Cast) -> None:
    ended(cast)
    client = Client()
    client.force_login(cast.mate)
    number = cast.mate.pk
    body = {"confirm": "mate", "with_runs": True}
    answer = client.post("/api/v1/me/erase", body, content_type="application/json")
    assert answer.status_code == 200 and answer.json()["pseudonym"] == f"erased person {number}"
    assert answer.json()["deleted_runs"] == 1
    row = AuditEntry.objects.get(action="person.erase")
    assert (row.actor, row.object, row.result) == (f"erased person {number}", f"user {number}", "ok")
    assert "mate" not in f"{row.before}{row.after}"
    assert client.get("/api/v1/me").status_code == 401
    assert connection.vendor and chain.verify().fault is None
