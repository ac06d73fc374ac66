"""Every model has a page in the admin, and staff can open each of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.apps import apps
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from runs.models import Run
from tests.cast import Cast, make_attempt, make_node, make_user

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


def test_people_without_staff_are_sent_to_sign_in(cast: Cast) -> None:
    client = Client()
    client.force_login(cast.mate)
    assert client.get(reverse("admin:runs_run_changelist")).status_code == 302
