"""A cluster is used by the projects that staff let use it, whatever is asked for, and seen by their members."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.utils import timezone

from runs import actions
from runs.actions.estimates import plans_of
from runs.life.reconcile.placing import schedule
from runs.models import Dataset, Membership, Project, Role, Run
from runs.rights.access import Forbidden, NotFound, get_cluster, get_node, visible_clusters
from runs.values.status import Status
from tests.cast import Cast, make_node, make_run, make_user, spec
from tests.runs.api.conftest import Api
from trainyard.spec import SpecError

CLOSED = "project default may not use cluster local"


@pytest.fixture
def shut_out(cast: Cast, valkey: object) -> Cast:
    """The cluster has a node, and is let to another project, of which the mate is a member too."""
    other = Project.objects.create(name="vision")
    Membership.objects.create(project=other, user=cast.mate, role=Role.MEMBER)
    make_node(cast.cluster, "node-a")
    cast.cluster.projects.set([other])
    return cast


def refused(act: Callable[[], Any]) -> str:
    with pytest.raises(SpecError) as error:
        act()
    (problem,) = error.value.errors
    assert problem.path == "cluster"
    return problem.message


def test_a_run_of_a_project_that_may_not_is_refused_also_for_superusers(shut_out: Cast) -> None:
    for actor in (shut_out.mate, make_user("root", is_superuser=True)):
        assert CLOSED in refused(lambda actor=actor: actions.submit_run(actor=actor, document=spec()))
    assert actions.submit_run(actor=shut_out.mate, document=spec(project="vision")).cluster == shut_out.cluster


def test_a_plan_is_refused_as_a_launch_would_be(shut_out: Cast) -> None:
    assert CLOSED in refused(lambda: plans_of(shut_out.mate, spec(), count=1, now=timezone.now()))


def test_who_has_no_project_on_it_does_not_learn_that_it_is_there(shut_out: Cast) -> None:
    Membership.objects.create(project=shut_out.project, user=shut_out.outsider, role=Role.MEMBER)
    assert (
        refused(lambda: actions.submit_run(actor=shut_out.outsider, document=spec())) == "there is no cluster 'local'"
    )
    assert not visible_clusters(shut_out.outsider).exists()
    for loader, name in ((get_cluster, "local"), (get_node, "node-a")):
        with pytest.raises(NotFound):
            loader(shut_out.outsider, name)
    assert get_cluster(shut_out.mate, "local") == get_cluster(shut_out.owner, "local") == shut_out.cluster


@pytest.mark.parametrize("verb", ["restart", "clone"])
def test_a_run_of_before_is_neither_restarted_nor_cloned(shut_out: Cast, verb: str) -> None:
    run = make_run(shut_out, status=Status.FAILED)
    if verb == "clone":
        assert CLOSED in refused(lambda: actions.clone_run(actor=shut_out.mate, run=run))
        return
    with pytest.raises(Forbidden, match="may not use cluster local"):
        actions.restart_run(actor=shut_out.mate, run=run)
    assert Run.objects.get().status == Status.FAILED


def test_what_waits_when_the_project_is_taken_off_is_not_placed_and_says_why(cast: Cast, valkey: object) -> None:
    make_node(cast.cluster)
    run = make_run(cast)
    actions.edit_cluster(actor=cast.owner, cluster=cast.cluster, projects=[])
    schedule(cast.cluster.pk, timezone.now())
    run.refresh_from_db()
    assert (run.status, run.reason_sentence) == (Status.QUEUED, "Its project may not use cluster local any more.")
    actions.edit_cluster(actor=cast.owner, cluster=cast.cluster, projects=["default"])
    schedule(cast.cluster.pk, timezone.now())
    run.refresh_from_db()
    assert run.status == Status.SCHEDULED


def test_datasets_are_neither_named_nor_looked_at_there(shut_out: Cast) -> None:
    about = {"project": shut_out.project, "cluster": shut_out.cluster}
    with pytest.raises(Forbidden):
        actions.create_dataset(actor=shut_out.mate, **about, name="x", source="text", location="/data/x")
    dataset = Dataset.objects.create(**about, name="y", source="text", location="/data/y")
    with pytest.raises(Forbidden):
        actions.check_dataset(actor=shut_out.mate, dataset=dataset)


def test_staff_alone_let_projects_in_by_name_or_id(cast: Cast) -> None:
    other = Project.objects.create(name="vision")
    change = actions.edit_cluster
    assert list(change(actor=cast.owner, cluster=cast.cluster, projects=[other.pk]).projects.all()) == [other]
    assert cast.cluster.projects.count() == 1, "nothing is said of them: they stay"
    change(actor=cast.owner, cluster=cast.cluster, region="eu")
    assert cast.cluster.projects.count() == 1
    with pytest.raises(ValidationError, match="no project 'nobody'"):
        change(actor=cast.owner, cluster=cast.cluster, projects=["nobody"])
    with pytest.raises(Forbidden):
        change(actor=cast.mate, cluster=cast.cluster, projects=["default"])
    assert actions.create_cluster(actor=cast.owner, name="lab").projects.count() == 0, "closed until somebody opens it"


def test_the_api_shows_and_changes_them(cast: Cast) -> None:
    owner, mate = Api(cast.owner), Api(cast.mate)
    Project.objects.create(name="vision")
    changed = owner("PATCH", "/clusters/local", {"projects": ["default", "vision"]}).json()
    assert changed["projects"] == ["default", "vision"]
    assert mate("GET", "/clusters/local").json()["projects"] == ["default"], "others' projects are not named"
    assert owner("PATCH", "/clusters/local", {"projects": ["x"]}).status_code == 422
    owner("PATCH", "/clusters/local", {"projects": ["vision"]})
    assert mate("GET", "/clusters/local").status_code == 404
    assert mate("GET", "/clusters").json()["items"] == []
    assert mate("POST", "/runs", spec()).status_code == 422


def test_the_page_changes_them_and_the_launch_form_offers_no_other(shut_out: Cast, settings: Any) -> None:
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
    client = Client()
    client.force_login(shut_out.mate)
    text = " ".join(client.get("/launch/").content.decode().split())
    assert '<option value="local" data-projects="vision"' in text
    client.force_login(shut_out.owner)
    text = " ".join(client.get("/nodes/clusters/local/edit/").content.decode().split())
    assert 'name="projects" value="vision" checked' in text
    client.post("/nodes/clusters/local/edit/", {"name": "local", "projects": ["default"]})
    assert [one.name for one in shut_out.cluster.projects.all()] == ["default"]
