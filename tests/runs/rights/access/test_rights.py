"""Scopes of tokens, groups, roles of projects, service accounts: nobody gets more than somebody had to give."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.test import Client
from django.utils import timezone

from runs import actions
from runs.models import Cluster, ClusterRole, GroupRole, Membership, Project, Role, Run, Token, User
from runs.rights import access
from runs.rights.access import Forbidden, NotFound, Permission, user_of_token
from runs.rights.access.roles import visible_project_ids
from runs.values.refused import Refused
from tests.cast import Cast, make_user
from tests.printed_pages.roles import documented

P = Permission
ROOT = Path(__file__).parents[4]
pytestmark = pytest.mark.usefixtures("valkey")


def by_token(user: User, **reach: Any) -> User:
    """Return the person as they act by a new token."""
    _, secret = actions.create_token(actor=user, name="x", **reach)
    found = user_of_token(secret, "192.0.2.7")
    assert found is not None
    return found


def test_a_token_does_what_its_scopes_say_and_no_more_than_its_owner(cast: Cast, make_run: Callable[..., Run]) -> None:
    run = make_run()
    reader = by_token(cast.mate, scopes=["runs:read"])
    assert access.get_run(reader, run.pk) == run
    for wanted in (P.RUNS_STOP, P.RUNS_LAUNCH, P.RUNS_ENTER):
        with pytest.raises(Forbidden, match=wanted):
            access.get_run(reader, run.pk, wanted)
    with pytest.raises(Forbidden, match="jobs:read"):
        access.visible_jobs(reader)
    greedy = by_token(cast.viewer, scopes=["runs:write", "members:manage"])
    assert access.permissions_in(greedy, cast.project) == frozenset()
    assert not access.can(greedy, cast.project, P.RUNS_STOP)


def test_a_token_for_some_projects_sees_no_other_and_nothing_outside(cast: Cast, make_run: Callable[..., Run]) -> None:
    root = make_user("root", is_staff=True, is_superuser=True)
    other = Project.objects.create(name="other")
    run, foreign = make_run(), make_run(project=other)
    narrow = by_token(root, projects=["default"])
    assert list(access.visible_projects(narrow)) == [cast.project]
    assert access.get_run(narrow, run.pk, P.RUNS_STOP)
    with pytest.raises(NotFound):
        access.get_run(narrow, foreign.pk)
    assert not access.can_manage_clusters(narrow) and not access.is_administrator(narrow)
    sight = access.sight_by_token(narrow, access.sights([narrow])[narrow.pk])
    assert sight.sees(cast.project.pk) and not sight.sees(other.pk)


def test_a_token_makes_none_that_may_more(cast: Cast) -> None:
    maker = by_token(cast.mate, scopes=["account:manage", "runs:read"])
    assert actions.create_token(actor=maker, name="y", scopes=["runs:read"])
    for scopes in (None, ["runs:stop"]):
        with pytest.raises(Forbidden, match="has not"):
            actions.create_token(actor=maker, name="y", scopes=scopes)
    with pytest.raises(Forbidden, match="account:manage"):
        actions.create_token(actor=by_token(cast.mate, scopes=["runs:read"]), name="y", scopes=["runs:read"])


def test_a_token_makes_none_that_lasts_longer(cast: Cast) -> None:
    soon = timezone.now() + timedelta(hours=1)
    scopes = ["account:manage", "runs:read"]
    for actor in (by_token(cast.mate, expires_at=soon), by_token(cast.mate, scopes=scopes, expires_at=soon)):
        for end in (soon, None):
            made, _ = actions.create_token(actor=actor, name="y", scopes=["runs:read"], expires_at=end)
            assert made.expires_at == soon, "its own end is that of one that names none"
        with pytest.raises(Forbidden, match="ends before"):
            actions.create_token(actor=actor, name="y", scopes=["runs:read"], expires_at=soon + timedelta(seconds=1))


def test_scopes_that_there_are_not_are_named(cast: Cast) -> None:
    for scopes in (["runs:fly"], []):
        with pytest.raises(ValidationError, match=r"scope|at least one"):
            actions.create_token(actor=cast.mate, name="x", scopes=scopes)


def test_rest_makes_a_token_with_scopes_and_shows_its_last_address(cast: Cast) -> None:
    _, secret = actions.create_token(actor=cast.mate, name="x")
    client = Client(headers={"Authorization": f"Bearer {secret}"})
    body = {"name": "ci", "scopes": ["runs:read"], "projects": ["default"]}
    made = client.post("/api/v1/tokens", body, content_type="application/json").json()
    assert made["secret"] == made["token"] and made["scopes"] == ["runs:read"]
    ci = Client(headers={"Authorization": f"Bearer {made['secret']}"})
    assert ci.get("/api/v1/runs").status_code == 200
    assert ci.get("/api/v1/jobs").status_code == 403
    assert Token.objects.get(pk=made["id"]).last_address == "127.0.0.1"


def test_a_group_gives_its_people_a_role_and_takes_it_again(cast: Cast, make_run: Callable[..., Run]) -> None:
    run, group = make_run(), Group.objects.create(name="research")
    group.user_set.add(cast.outsider)
    actions.give_group_role(actor=cast.owner, group=group, project=cast.project, role=Role.MEMBER)
    assert access.get_run(cast.outsider, run.pk, P.RUNS_STOP) == run
    assert access.sights([cast.outsider])[cast.outsider.pk].sees(cast.project.pk)
    assert list(access.projects_with(cast.outsider, P.RUNS_LAUNCH)) == [cast.project]
    actions.take_group_role(actor=cast.owner, group=group, project=cast.project)
    with pytest.raises(NotFound):
        access.get_run(cast.outsider, run.pk)


def test_an_auditor_everywhere_reads_all_and_changes_nothing(cast: Cast, make_run: Callable[..., Run]) -> None:
    run, group = make_run(), Group.objects.create(name="auditors")
    group.user_set.add(cast.outsider)
    GroupRole.objects.create(group=group, project=None, role=Role.AUDITOR)
    assert access.get_run(cast.outsider, run.pk) == run
    assert access.can_everywhere(cast.outsider, P.AUDIT_READ)
    with pytest.raises(Forbidden):
        access.get_run(cast.outsider, run.pk, P.RUNS_STOP)


def test_only_administrators_give_a_role_in_every_project(cast: Cast) -> None:
    group = Group.objects.create(name="research")
    with pytest.raises(Forbidden):
        actions.give_group_role(actor=cast.owner, group=group, project=None, role=Role.VIEWER)


def test_nobody_gives_or_takes_more_than_they_have(cast: Cast) -> None:
    maintainer = make_user("maintainer")
    Membership.objects.create(project=cast.project, user=maintainer, role=Role.MAINTAINER)
    group = Group.objects.create(name="research")
    for give in (
        lambda: actions.invite(actor=maintainer, project=cast.project, role=Role.OWNER),
        lambda: actions.change_role(actor=maintainer, project=cast.project, user=cast.mate, role=Role.OWNER),
        lambda: actions.change_role(actor=maintainer, project=cast.project, user=cast.owner, role=Role.VIEWER),
        lambda: actions.give_group_role(actor=maintainer, group=group, project=cast.project, role=Role.OWNER),
        lambda: actions.create_service_account(actor=maintainer, project=cast.project, name="ci", role=Role.OWNER),
    ):
        with pytest.raises(Forbidden):
            give()


def test_a_role_of_the_project_adds_permissions(cast: Cast, make_run: Callable[..., Run]) -> None:
    run = make_run()
    role = actions.save_custom_role(actor=cast.owner, project=cast.project, name="stopper", permissions=["runs:stop"])
    with pytest.raises(Forbidden):
        access.get_run(cast.viewer, run.pk, P.RUNS_STOP)
    actions.change_role(actor=cast.owner, project=cast.project, user=cast.viewer, role=Role.VIEWER, custom_role=role)
    assert access.get_run(cast.viewer, run.pk, P.RUNS_STOP) == run
    assert list(access.projects_with(cast.viewer, P.RUNS_STOP)) == [cast.project]
    actions.delete_custom_role(actor=cast.owner, role=role)
    with pytest.raises(Forbidden):
        access.get_run(cast.viewer, run.pk, P.RUNS_STOP)


def test_a_custom_role_that_manages_members_gives_no_more_than_it_holds(cast: Cast) -> None:
    role = actions.save_custom_role(
        actor=cast.owner, project=cast.project, name="greeter", permissions=["members:manage"]
    )
    membership = Membership.objects.get(user=cast.viewer)
    membership.custom_role = role
    membership.save()
    assert actions.invite(actor=cast.viewer, project=cast.project, role=Role.VIEWER)
    with pytest.raises(Forbidden):
        actions.invite(actor=cast.viewer, project=cast.project, role=Role.MEMBER)


def test_a_service_account_has_tokens_and_never_signs_in(cast: Cast, make_run: Callable[..., Run]) -> None:
    run = make_run()
    account = actions.create_service_account(actor=cast.owner, project=cast.project, name="ci", role=Role.MEMBER)
    _, secret = actions.create_token(actor=cast.owner, user=account, name="nightly")
    robot = user_of_token(secret)
    assert robot is not None and access.get_run(robot, run.pk, P.RUNS_STOP) == run
    with pytest.raises(Refused, match="never signs in"):
        actions.make_sign_in_link(user=account)
    account.set_password("correct horse battery")
    account.save()
    assert actions.sign_in(username=account.username, password="correct horse battery", address="192.0.2.1") is None
    with pytest.raises(Forbidden):
        actions.create_token(actor=cast.mate, user=account, name="mine")
    actions.close_service_account(actor=cast.owner, account=account)
    assert user_of_token(secret) is None


def test_a_group_may_run_on_a_cluster_that_its_projects_may_not_use(cast: Cast) -> None:
    big = Cluster.objects.create(name="big")
    group = Group.objects.create(name="research")
    group.user_set.add(cast.mate)
    with pytest.raises(NotFound):
        access.get_cluster_for(cast.mate, cast.project, "big")
    ClusterRole.objects.create(group=group, cluster=big, role=ClusterRole.Kind.RUNNER)
    assert access.get_cluster_for(cast.mate, cast.project, "big") == big and access.can_run_on(cast.mate, big)
    assert list(access.users_who_may_run_on(big)) == [cast.mate]
    with pytest.raises(Forbidden):
        access.get_cluster(cast.mate, "big", Permission.CLUSTERS_MANAGE)
    ClusterRole.objects.update(role=ClusterRole.Kind.OPERATOR)
    assert access.get_cluster(cast.mate, "big", Permission.CLUSTERS_MANAGE) == big
    with pytest.raises(Forbidden):
        access.get_cluster(cast.mate, "local", Permission.CLUSTERS_MANAGE)


def test_the_document_of_roles_is_the_table() -> None:
    assert (ROOT / "docs" / "roles.md").read_text() == documented()


def test_the_ids_that_lists_are_filtered_by_are_those_of_the_projects_that_one_sees(cast: Cast) -> None:
    other, group = Project.objects.create(name="other"), Group.objects.create(name="of one")
    everywhere = Group.objects.create(name="of all")
    GroupRole.objects.create(group=group, project=other, role=Role.VIEWER)
    GroupRole.objects.create(group=everywhere, project=None, role=Role.VIEWER)
    by_group, of_all, gone = make_user("by-group"), make_user("of-all"), make_user("gone", is_active=False)
    by_group.groups.add(group)
    of_all.groups.add(everywhere)
    Membership.objects.create(project=other, user=gone, role=Role.OWNER)
    root = make_user("root", is_staff=True, is_superuser=True)
    people = [cast.owner, cast.mate, cast.outsider, by_group, of_all, gone, root]
    people += [by_token(user, projects=["default"]) for user in (root, of_all, cast.mate)]
    names = {one.pk: one.name for one in Project.objects.all()}
    seen = [visible_project_ids(user) for user in people]
    assert [None if ids is None else sorted(names[pk] for pk in ids) for ids in seen] == [
        ["default"], ["default"], [], ["other"], None, [], None, ["default"], ["default"], ["default"],
    ]  # fmt: skip
    assert [access.visible_projects(user).count() for user in people] == [1, 1, 0, 1, 2, 0, 2, 1, 1, 1]
