"""The loaders: what one may not see is not there, what one may not do is forbidden."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import Http404

from runs.models import Membership, Project, Role, Run
from runs.rights import access
from runs.rights.access import Forbidden, NotFound, Permission
from tests.cast import Cast, make_node, make_user


def test_members_see_the_runs_of_their_projects(cast: Cast, make_run: Callable[..., Run]) -> None:
    run = make_run()
    for user in (cast.owner, cast.mate, cast.viewer):
        assert access.get_run(user, run.pk) == run and list(access.visible_runs(user)) == [run]
    assert not access.visible_runs(cast.outsider).exists()
    assert not access.visible_runs(AnonymousUser()).exists()


def test_a_list_of_runs_does_not_read_what_was_predicted_of_each_of_their_ranks(
    cast: Cast, make_run: Callable[..., Run]
) -> None:
    make_run(estimate={"memory": [{"total": 1.0}] * 4_096})
    (run,) = access.visible_runs(cast.mate)
    assert run.get_deferred_fields() == {"estimate", "found_by"}
    assert len(access.get_run(cast.mate, run.pk).estimate["memory"]) == 4_096, "who asks for it has it"


@pytest.mark.parametrize("name", ["get_run", "get_job", "get_project", "get_cluster", "get_node"])
def test_what_is_not_there_and_what_may_not_be_seen_look_alike(
    cast: Cast, make_run: Callable[..., Run], name: str
) -> None:
    node = make_node(cast.cluster)
    there = {"get_run": make_run().pk, "get_project": "default", "get_cluster": "local", "get_node": node.pk}
    for user in (cast.outsider, AnonymousUser()):
        for key in ("nothing", there.get(name, "nothing")):
            with pytest.raises(NotFound):
                getattr(access, name)(user, key)


def test_each_role_includes_those_below_it(cast: Cast, make_run: Callable[..., Run]) -> None:
    run = make_run()
    assert access.get_run(cast.mate, run.pk, Role.MEMBER)
    with pytest.raises(Forbidden):
        access.get_run(cast.viewer, run.pk, Role.MEMBER)
    with pytest.raises(Forbidden):
        access.get_run(cast.mate, run.pk, Role.MAINTAINER)
    assert access.get_run(cast.owner, run.pk, Role.OWNER)


def test_an_administrator_is_everywhere_and_a_disabled_person_nowhere(cast: Cast, make_run: Callable[..., Run]) -> None:
    run = make_run()
    assert access.get_run(make_user("root", is_superuser=True), run.pk, Role.OWNER)
    cast.owner.is_active = False
    with pytest.raises(NotFound):
        access.get_run(cast.owner, run.pk)
    assert not access.visible_clusters(cast.owner).exists() and not access.can_manage_clusters(cast.owner)


def test_members_see_nodes_and_only_staff_manage_them(cast: Cast) -> None:
    node = make_node(cast.cluster)
    assert access.get_node(cast.viewer, node.name) == node
    with pytest.raises(Forbidden):
        access.get_node(cast.mate, node.pk, Permission.CLUSTERS_MANAGE)
    assert access.get_node(cast.owner, node.pk, Permission.CLUSTERS_MANAGE) == node


def test_refusals_are_djangos_own_too() -> None:
    assert issubclass(NotFound, Http404) and issubclass(Forbidden, PermissionDenied)


def test_the_projects_where_one_may_act_are_those_of_a_member(cast: Cast) -> None:
    assert list(access.projects_with(cast.mate, Role.MEMBER)) == [cast.project]
    assert not access.projects_with(cast.viewer, Role.MEMBER)
    assert not access.projects_with(cast.outsider, Role.VIEWER)


def test_the_sights_of_many_say_what_the_loader_says_of_each(cast: Cast, make_run: Callable[..., Run]) -> None:
    other = Project.objects.create(name="other")
    run_ids = [make_run().pk, make_run(project=other).pk, "nothing"]
    people = [cast.owner, cast.viewer, cast.outsider, make_user("root", is_superuser=True)]
    people += [make_user("gone", is_superuser=True, is_active=False), make_user("elsewhere")]
    Membership.objects.create(project=other, user=people[-1], role=Role.VIEWER)
    sights, projects = access.sights(people), access.projects_of(Run, run_ids)
    for user in people:
        for run_id in run_ids:
            try:
                can_see = bool(access.get_run(user, run_id))
            except NotFound:
                can_see = False
            assert sights[user.pk].sees(projects.get(run_id)) == can_see, (user, run_id)
