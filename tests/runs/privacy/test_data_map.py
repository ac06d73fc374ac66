"""The data map says of each model whether it holds data of people, and of each field that refers to one."""

from __future__ import annotations

import re
from pathlib import Path

from django.apps import apps
from django.db.models import Field

from runs.models import User
from runs.privacy.data_map import HOLDINGS
from tests.printed_pages.data_map import documented

DOCS = Path(__file__).parents[3] / "docs"
LOOKS_PERSONAL = re.compile(r"user|(?<!f)actor|person|email|author|address|agent|first_name|last_name|external_id|_by$")
MODELS = {model._meta.label: model for model in apps.get_models(include_auto_created=True)}

# Fields that are named like those of people, and hold nothing of one.
NOT_OF_PEOPLE = {
    "runs.Node.address": "of a machine",
    "runs.Dataset.checked_by": "a node",
    "runs.Project.slots_per_person": "a number, the same for all",
    "runs.Run.found_by": "words of the run's name and tags, for lists",
    "runs.ProvidedGroup.external_id": "of a group",
    "runs.Identity.keeps_person": "whether the person comes in through the provider alone",
    "runs.SecretUse.is_personal": "whether a secret was a person's; whose is in the run",
}

# Models without a line above: what their rows are about is no person, or nobody can be found in them.
WITHOUT_PEOPLE = {
    "runs.ErasedPerson": "a tombstone: a number and a keyed digest",
    "sessions.Session": "Django's rows of sessions; they end with runs.BrowserSession",
}


def fields_of(label: str) -> list[Field]:  # type: ignore[type-arg]
    return list(MODELS[label]._meta.concrete_fields)


def test_every_field_that_leads_to_a_person_has_a_line() -> None:
    declared = {(one.model, one.field) for one in HOLDINGS}
    leading = {(label, field.name) for label in MODELS for field in fields_of(label) if field.related_model is User}
    assert leading - declared == set(), "say in runs/privacy/data_map.py what these rows hold"


def test_every_field_that_is_named_like_one_of_a_person_is_declared() -> None:
    declared = {f"{one.model}.{name}" for one in HOLDINGS for name in (one.field, *one.texts, *one.hidden)}
    found = {
        f"{label}.{field.name}" for label in MODELS for field in fields_of(label) if LOOKS_PERSONAL.search(field.name)
    }
    assert found - declared - NOT_OF_PEOPLE.keys() == set(), "declare them, or say in NOT_OF_PEOPLE what they are"


def test_nothing_is_declared_that_is_not_there() -> None:
    for one in HOLDINGS:
        names = {field.name for field in fields_of(one.model)} | {"pk"}
        assert {one.field, *one.hidden, *one.texts} <= names, one.model
    assert {name.rpartition(".")[0] for name in NOT_OF_PEOPLE} | WITHOUT_PEOPLE.keys() <= MODELS.keys()


def test_the_page_is_what_the_command_prints() -> None:
    assert (DOCS / "data_map.md").read_text() == documented(), (
        "put what `python -m tests.printed_pages.data_map` prints into it"
    )
