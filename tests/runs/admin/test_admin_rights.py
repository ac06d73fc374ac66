"""Staff who may edit people or groups in the administration get no further rights by that."""

from __future__ import annotations

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group
from django.forms import JSONField
from django.test import Client, RequestFactory
from django.urls import reverse

from runs.admin.base import WrittenAdmin
from runs.models import CustomRole, Project, User
from tests.cast import Cast, make_user, permission

FORM = {"date_joined_0": "2026-01-01", "date_joined_1": "00:00:00", "is_active": "on", "is_staff": "on"}


@pytest.fixture
def helper(cast: Cast) -> User:
    """Staff who may see, change and delete people."""
    person = make_user("helper", is_staff=True)
    person.user_permissions.add(*(permission(f"{verb}_user") for verb in ("view", "change", "delete")))
    return person


@pytest.fixture
def client(helper: User) -> Client:
    made = Client()
    made.force_login(helper)
    return made


def test_an_editor_of_people_makes_nobody_an_administrator(client: Client, helper: User, cast: Cast) -> None:
    group = Group.objects.create(name="operators")
    for person in (helper, cast.mate):
        page = reverse("admin:runs_user_change", args=(person.pk,))
        more = {"is_superuser": "on", "groups": [group.pk], "user_permissions": [permission("add_project").pk]}
        assert client.post(page, {**FORM, "username": person.username, **more}).status_code == 302
        person.refresh_from_db()
        assert not person.is_superuser and not person.groups.exists()
        assert not person.has_perm("runs.add_project")
    assert not cast.mate.is_staff


@pytest.mark.parametrize("page", ["change", "delete"])
def test_an_editor_of_people_changes_no_administrator(client: Client, page: str) -> None:
    root = make_user("root", is_staff=True, is_superuser=True)
    answer = client.post(reverse(f"admin:runs_user_{page}", args=(root.pk,)), {**FORM, "username": "x", "post": "yes"})
    assert answer.status_code == 403
    assert User.objects.filter(pk=root.pk, username="root").exists()


def test_an_editor_of_people_sets_no_password(client: Client, cast: Cast) -> None:
    form = {"password1": "correct horse battery", "password2": "correct horse battery", "usable_password": "true"}
    page = reverse("admin:auth_user_password_change", args=(cast.owner.pk,))
    assert client.post(page, form).status_code == 403
    cast.owner.refresh_from_db()
    assert not cast.owner.has_usable_password()


def test_an_editor_of_groups_gives_their_group_no_permission(cast: Cast) -> None:
    person, group = make_user("greeter", is_staff=True), Group.objects.create(name="greeters")
    group.user_set.add(person)
    person.user_permissions.add(*(permission(f"{verb}_group", "auth") for verb in ("view", "change")))
    client = Client()
    client.force_login(person)
    form = {"name": "greeters", "permissions": [permission("delete_user").pk]}
    assert client.post(reverse("admin:auth_group_change", args=(group.pk,)), form).status_code == 302
    assert not group.permissions.exists()


def test_the_last_administrator_does_not_unmake_themselves(cast: Cast) -> None:
    root, client = make_user("root", is_staff=True, is_superuser=True), Client()
    client.force_login(root)
    page = reverse("admin:runs_user_change", args=(root.pk,))
    for form in (
        {**FORM},
        {name: value for name, value in FORM.items() if name != "is_active"} | {"is_superuser": "on"},
    ):
        answer = client.post(page, {**form, "username": "root"})
        assert answer.status_code == 200 and "last administrator" in answer.content.decode()
    make_user("other", is_superuser=True)
    assert client.post(page, {**FORM, "username": "root"}).status_code == 302


def test_an_editor_of_people_sets_no_address(client: Client, cast: Cast) -> None:
    """A provider that links by addresses would let them in as that person."""
    page = reverse("admin:runs_user_change", args=(cast.owner.pk,))
    assert client.post(page, {**FORM, "username": "owner", "email": "helper@example.com"}).status_code == 302
    cast.owner.refresh_from_db()
    assert cast.owner.email == ""


def test_an_editor_of_projects_weakens_none(cast: Cast) -> None:
    person, client = make_user("keeper", is_staff=True), Client()
    person.user_permissions.add(*(permission(f"{verb}_project") for verb in ("view", "change")))
    client.force_login(person)
    Project.objects.update(encrypts_files=True, second_factor_from="member")
    page = reverse("admin:runs_project_change", args=(cast.project.pk,))
    for asked in ("", "everybody"):
        assert client.post(page, {"name": "default", "second_factor_from": asked}).status_code == 302
    cast.project.refresh_from_db()
    assert (cast.project.encrypts_files, cast.project.second_factor_from) == (True, "member")


@pytest.mark.parametrize("permissions", ["7", "people:manage", '["runs:read", 7]', "{}"])
def test_a_role_of_a_project_holds_permissions_of_projects_alone(cast: Cast, permissions: str) -> None:
    root, client = make_user("root", is_staff=True, is_superuser=True), Client()
    client.force_login(root)
    page, form = reverse("admin:runs_customrole_add"), {"project": cast.project.pk, "name": "x"}
    assert client.post(page, {**form, "permissions": permissions}).status_code == 200
    assert not CustomRole.objects.exists()
    assert client.post(page, {**form, "permissions": ["runs:read", "runs:stop"]}).status_code == 302
    assert CustomRole.objects.get().permissions == ["runs:read", "runs:stop"]


def test_every_free_field_that_people_edit_in_the_administration_is_checked_by_its_form(
    cast: Cast, rf: RequestFactory
) -> None:
    """A JSON field takes anything, and code takes what lies in it for checked. A new one gets a check of its own."""
    request = rf.get("/admin/")
    request.user = make_user("root", is_staff=True, is_superuser=True)
    free = {
        f"{model._meta.label}.{name}"
        for model, page in admin.site._registry.items()
        if not isinstance(page, WrittenAdmin)
        for name, field in page.get_form(request).base_fields.items()
        if isinstance(field, JSONField)
    }
    assert free == {"runs.Cluster.settings", "runs.Cluster.labels"}  # ClusterForm.clean checks both


@pytest.mark.parametrize("labels", ["7", "[1]", '{"zone": 7}', '{"zone": {}}'])
def test_labels_of_a_cluster_are_texts(cast: Cast, labels: str) -> None:
    root, client = make_user("root", is_staff=True, is_superuser=True), Client()
    client.force_login(root)
    form = {"name": "local", "engine": "celery", "settings": "{}", "labels": labels}
    answer = client.post(reverse("admin:runs_cluster_change", args=(cast.cluster.pk,)), form)
    assert answer.status_code == 200
    cast.cluster.refresh_from_db()
    assert cast.cluster.labels == {}
