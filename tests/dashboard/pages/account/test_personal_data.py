"""Your data: an export, the way out, and the terms of the site."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from runs.models import Consent, PersonalExport, User
from runs.privacy import clock
from tests.cast import Cast, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey")]
AsUser = Callable[[User], Client]


@pytest.fixture(autouse=True)
def home(settings: Any, tmp_path: Path) -> Path:
    settings.HOME = tmp_path
    settings.ERASURES_FILE = str(tmp_path / "erasures.jsonl")
    return tmp_path


def test_an_export_is_asked_for_made_and_offered(as_user: AsUser, cast: Cast) -> None:
    client = as_user(cast.mate)
    assert client.post("/account/data/export/").status_code == 302
    assert "It is being made." in client.get("/account/data/").content.decode()
    clock.make_exports(timezone.now())
    export = PersonalExport.objects.get()
    assert f"/api/v1/me/exports/{export.pk}/file" in client.get("/account/data/").content.decode()


def test_one_erases_oneself_with_the_name_typed_again(as_user: AsUser, cast: Cast) -> None:
    client = as_user(cast.mate)
    answer = client.post("/account/data/erase/", {"confirm": "mat"})
    assert answer.status_code == 409 and "Type the user name" in answer.content.decode()
    answer = client.post("/account/data/erase/", {"confirm": "mate"})
    assert answer.status_code == 200 and "You are erased" in answer.content.decode()
    assert not User.objects.filter(username="mate").exists()
    assert client.get("/account/").status_code == 302


def test_an_administrator_erases_somebody_else_and_an_owner_does_not(as_user: AsUser, cast: Cast) -> None:
    root = make_user("root", is_superuser=True)
    path = f"/people/persons/{cast.mate.pk}/"
    assert as_user(cast.owner).get(path).status_code == 404
    client = as_user(root)
    assert "Erase for good" in client.get(path).content.decode()
    assert client.post(f"{path}erase/", {"confirm": "mate"}).status_code == 302
    assert not User.objects.filter(username="mate").exists() and client.get(path).status_code == 404


def test_the_terms_come_first_and_the_way_out_stays_open(
    as_user: AsUser, cast: Cast, settings: Any, tmp_path: Path
) -> None:
    terms = tmp_path / "terms.txt"
    terms.write_text("Be kind.")
    client = as_user(cast.mate)
    assert client.get("/account/consent/").status_code == 404, "a site without a text asks for nothing"
    settings.CONSENT_FILE = str(terms)
    assert client.get("/runs/")["Location"] == "/account/consent/"
    assert client.get("/account/data/").status_code == 200
    assert "Be kind." in client.get("/account/consent/").content.decode()
    assert client.post("/account/consent/").status_code == 302
    assert client.get("/runs/").status_code == 200 and Consent.objects.get().user == cast.mate
    terms.write_text("Be kinder still.")
    assert client.get("/runs/")["Location"] == "/account/consent/", "another text is asked about again"
