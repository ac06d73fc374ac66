"""Projects, members, invitations; jobs and bundles."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from runs import actions
from runs.actions import Refused
from runs.models import Invitation, Job, Membership, Role, User
from runs.records.files.paths import bundle_path
from runs.rights.access import Forbidden, NotFound, can, get_project
from tests.cast import Cast, allow_projects, make_user, spec
from trainyard import bundle


def test_a_project_belongs_to_whoever_made_it(cast: Cast) -> None:
    allow_projects(cast.mate)
    project = actions.create_project(actor=cast.mate, name="vision")
    assert can(cast.mate, project, Role.OWNER) and not can(cast.viewer, project, Role.VIEWER)
    with pytest.raises(Refused):
        actions.create_project(actor=cast.mate, name="vision")
    with pytest.raises(ValidationError):
        actions.create_project(actor=cast.mate, name="no spaces")


@pytest.mark.parametrize("name", ["owner", "mate", "viewer", "outsider"])
def test_making_projects_is_a_permission_that_no_role_in_a_project_brings(cast: Cast, name: str) -> None:
    person = getattr(cast, name)
    with pytest.raises(Forbidden, match="administrator"):
        actions.create_project(actor=person, name="mine")
    person = allow_projects(person)
    assert actions.create_project(actor=person, name="mine").name == "mine"
    actions.create_project(actor=make_user("root", is_superuser=True), name="yours")
    person.is_active = False
    with pytest.raises(Forbidden):
        actions.create_project(actor=person, name="another")


def test_an_invitation_lets_one_person_in(cast: Cast) -> None:
    _, secret = actions.invite(actor=cast.owner, project=cast.project, role=Role.MEMBER, email="new@example.org")
    user = actions.accept_invitation(secret=secret, username="new")
    assert can(user, cast.project, Role.MEMBER) and not user.has_usable_password()
    with pytest.raises(NotFound):
        actions.accept_invitation(secret=secret, username="newer")


def test_an_invitation_takes_no_role_away(cast: Cast) -> None:
    _, secret = actions.invite(actor=cast.owner, project=cast.project, role=Role.VIEWER)
    actions.accept_invitation(secret=secret, user=cast.mate)
    assert can(cast.mate, cast.project, Role.MEMBER)
    _, secret = actions.invite(actor=cast.owner, project=cast.project, role=Role.MAINTAINER)
    actions.accept_invitation(secret=secret, user=cast.mate)
    assert can(cast.mate, cast.project, Role.MAINTAINER)


def test_an_old_invitation_or_a_taken_name_is_refused_and_can_be_used_again(cast: Cast) -> None:
    _, secret = actions.invite(actor=cast.owner, project=cast.project, role=Role.MEMBER)
    with pytest.raises(Refused):
        actions.accept_invitation(secret=secret, username="mate")
    Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    with pytest.raises(NotFound):
        actions.accept_invitation(secret=secret, username="new")
    assert not User.objects.filter(username="new").exists()


def test_only_maintainers_invite_and_only_owners_make_owners(cast: Cast) -> None:
    with pytest.raises(Forbidden):
        actions.invite(actor=cast.mate, project=cast.project, role=Role.VIEWER)
    actions.change_role(actor=cast.owner, project=cast.project, user=cast.mate, role=Role.MAINTAINER)
    actions.invite(actor=cast.mate, project=cast.project, role=Role.MAINTAINER)
    with pytest.raises(Forbidden):
        actions.invite(actor=cast.mate, project=cast.project, role=Role.OWNER)
    with pytest.raises(Forbidden):
        actions.change_role(actor=cast.mate, project=cast.project, user=cast.owner, role=Role.VIEWER)


def test_the_last_owner_stays(cast: Cast) -> None:
    with pytest.raises(Refused, match="last owner"):
        actions.remove_member(actor=cast.owner, project=cast.project, user=cast.owner)
    with pytest.raises(Refused, match="last owner"):
        actions.change_role(actor=cast.owner, project=cast.project, user=cast.owner, role=Role.MEMBER)


def test_everybody_may_leave_and_maintainers_remove(cast: Cast) -> None:
    actions.remove_member(actor=cast.viewer, project=cast.project, user=cast.viewer)
    with pytest.raises(Forbidden):
        actions.remove_member(actor=cast.mate, project=cast.project, user=cast.owner)
    actions.remove_member(actor=cast.owner, project=cast.project, user=cast.mate)
    assert Membership.objects.count() == 1
    with pytest.raises(NotFound):
        get_project(cast.mate, cast.project.pk)


def test_a_job_saved_again_is_its_next_version(cast: Cast) -> None:
    first = actions.save_job(actor=cast.mate, document=spec())
    second = actions.save_job(actor=cast.mate, document=spec(train={"steps": 9}))
    assert (first.version, second.version) == (1, 2)
    actions.delete_job(actor=cast.mate, job=second)
    assert not Job.objects.exists()
    with pytest.raises(Forbidden):
        actions.save_job(actor=cast.viewer, document=spec())
    with pytest.raises(NotFound):
        actions.save_job(actor=cast.outsider, document=spec())


def test_code_is_kept_once_under_its_digest(cast: Cast, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    data, sha256, _ = bundle.pack(tmp_path)
    row = actions.store_bundle(actor=cast.mate, project=cast.project, data=data)
    assert (row.sha256, row.files, row.size_bytes) == (sha256, ["train.py"], len(data))
    assert bundle_path(sha256).read_bytes() == data
    assert actions.store_bundle(actor=cast.mate, project=cast.project, data=data) == row
    with pytest.raises(ValueError):
        actions.store_bundle(actor=cast.mate, project=cast.project, data=b"no archive")
    with pytest.raises(Forbidden):
        actions.store_bundle(actor=cast.viewer, project=cast.project, data=data)


@pytest.mark.parametrize("field", ["username", "first_name", "last_name", "email"])
def test_a_person_has_no_name_with_characters_that_nobody_sees(cast: Cast, field: str) -> None:
    setattr(cast.mate, field, "mate\u202e@exa.org" if field == "email" else "ma\u3164te")
    with pytest.raises(ValidationError) as caught:
        cast.mate.full_clean()
    assert field in caught.value.message_dict and "\u202e" not in str(caught.value.message_dict)


def test_nobody_is_invited_or_comes_in_under_one(cast: Cast) -> None:
    with pytest.raises(ValidationError, match="invisible"):
        actions.invite(actor=cast.owner, project=cast.project, role=Role.MEMBER, email="mate@exa\u202emple.org")
    _, secret = actions.invite(actor=cast.owner, project=cast.project, role=Role.MEMBER)
    with pytest.raises(ValidationError, match="invisible"):
        actions.accept_invitation(secret=secret, username="ma\u3164te")


@pytest.mark.parametrize("char", ["\u202e", "\u200b", "\u2066"])
def test_neither_a_project_nor_a_cluster_has_one(cast: Cast, char: str) -> None:
    cast.owner.is_superuser = True
    with pytest.raises(ValidationError):
        actions.create_project(actor=cast.owner, name=f"vis{char}ion")
    with pytest.raises(ValidationError):
        actions.create_cluster(actor=cast.owner, name=f"la{char}b")


def test_nobody_is_called_like_another_but_for_capital_letters(cast: Cast) -> None:
    _, secret = actions.invite(actor=cast.owner, project=cast.project, role=Role.VIEWER)
    with pytest.raises(Refused, match="already a person"):
        actions.accept_invitation(secret=secret, username="OWNER")
