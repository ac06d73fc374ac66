"""`trainyard comply`: the controls, and exit code 1 where one is red."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from allauth.mfa.models import Authenticator

from runs.models import User
from tests.cast import Cast
from tests.trainyard.command import Trainyard

pytestmark = pytest.mark.usefixtures("valkey")


@pytest.fixture
def administrator(cast: Cast, tmp_path: Path, settings: Any) -> Iterator[User]:
    settings.HOME, settings.ERASURES_FILE = tmp_path, str(tmp_path / "erasures.jsonl")
    settings.AUDIT_HEAD_FILE = str(tmp_path / "audit_head")
    cast.mate.is_superuser = True
    cast.mate.save()
    yield cast.mate


def test_a_red_control_is_exit_code_1_and_says_why(trainyard: Trainyard, administrator: User) -> None:
    done = trainyard("comply")
    assert done.code == 1, done.err
    [line] = [line for line in done.out.splitlines() if "Second factor" in line]
    assert line.startswith("red") and "never" in line and line.endswith("0 of 1. Without one: mate.")


def test_without_a_red_control_it_is_0(trainyard: Trainyard, administrator: User) -> None:
    Authenticator.objects.create(user=administrator, type="totp", data={"secret": ""})
    done = trainyard("comply", "--json")
    found = json.loads(done.out)
    assert {one["state"] for one in found["controls"]} == {"green", "grey"} and len(found["signature"]) == 128
    assert done.code == 0


def test_it_is_for_administrators(trainyard: Trainyard, cast: Cast) -> None:
    done = trainyard("comply")
    assert done.code == 1 and done.out == "" and done.err
