"""Every model has a page in the admin, and staff can open each of them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.apps import apps
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from runs.admin import groups
from runs.models import CodeBundle, Run
from runs.rights.audit.chain import append
from runs.rights.audit.facts import Act
from tests.cast import Cast, make_attempt, make_node, make_user, permission

MODELS = [*apps.get_app_config("runs").get_models(), *apps.get_app_config("metrics").get_models()]


@pytest.fixture
def staff(cast: Cast) -> Client:
    client = Client()
    client.force_login(make_user("admin", is_staff=True, is_superuser=True))
    return client


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.model_name)
def test_every_model_has_its_list(staff: Client, model: type) -> None:
    assert model in admin.site._registry
    path = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")  # type: ignore[attr-defined]
    assert staff.get(path, {"q": "x"}).status_code == 200


def test_a_run_opens_with_its_attempts_and_can_not_be_edited(
    staff: Client, cast: Cast, make_run: Callable[..., Run]
) -> None:
    run = make_run()
    make_attempt(run, [make_node(cast.cluster)])
    path = reverse("admin:runs_run_change", args=(run.pk,))
    page = staff.get(path)
    assert page.status_code == 200 and 'name="_save"' not in page.content.decode()
    assert staff.post(path, {"name": "x"}).status_code == 403


def test_secrets_are_not_shown(staff: Client, cast: Cast) -> None:
    node = make_node(cast.cluster)
    page = staff.get(reverse("admin:runs_node_change", args=(node.pk,)))
    assert page.status_code == 200 and node.key not in page.content.decode()


def test_every_table_is_in_one_group_with_words_on_what_its_rows_are() -> None:
    tables = [table for group in (*groups.GROUPS, groups.MACHINERY) for table in group.tables]
    assert sorted(model.__name__ for model, _, _ in tables) == sorted(model.__name__ for model in MODELS)
    assert len({title for _, title, _ in tables}) == len(tables) and all(words for _, _, words in tables)
    assert max(len(group.tables) for group in groups.GROUPS) <= 5


def test_the_sidebar_has_what_people_look_for_and_one_link_to_the_rest(staff: Client) -> None:
    text = staff.get("/admin/").content.decode()
    sidebar = text[text.index('id="nav-sidebar-apps"') : text.index("<details")]
    assert all(f">{title}<" in sidebar for title in ("People", "Runs", "Nodes", "Datasets", "Machinery"))
    assert "/admin/metrics/segment/" not in sidebar and "/admin/metrics/segment/" in text
    assert '<details class="' in text and " open>" not in text[text.index("<details") :]
    assert " open>" in staff.get("/admin/?machinery").content.decode()


def test_staff_see_the_groups_of_what_they_may_see(cast: Cast) -> None:
    person = make_user("helper", is_staff=True)
    person.user_permissions.add(permission("view_node"))
    client = Client()
    client.force_login(person)
    text = client.get("/admin/").content.decode()
    assert "/admin/runs/node/" in text and "/admin/runs/user/" not in text and "<details" not in text


def test_the_audit_shows_who_did_what_to_what(staff: Client) -> None:
    row = append(Act(actor="mate", address="10.0.0.9", action="runs.stop", object="run 1", after={"run 1": {"a": 1}}))
    for path in ("/admin/runs/auditentry/", f"/admin/runs/auditentry/{row.pk}/change/"):
        text = staff.get(path).content.decode()
        assert "mate 10.0.0.9" in text and "run 1" in text
    assert "{&quot;after&quot;:{&quot;run 1&quot;:{&quot;a&quot;:1}},&quot;before&quot;:null}" in text


def test_sizes_and_times_have_their_units(staff: Client, cast: Cast) -> None:
    CodeBundle.objects.create(project=cast.project, sha256="a" * 64, size_bytes=1536)
    text = staff.get("/admin/runs/codebundle/").content.decode()
    assert "1.5 KiB" in text and re.search(r"\d{4}, \d\d:\d\d:\d\d UTC", text)
