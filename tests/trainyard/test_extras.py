"""What a light install lacks is named with the extra that brings it."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from trainyard.extras import EXTRAS, explained, lacking

PROJECT = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())["project"]
IMPORTED = {"PIL": "pillow", "sklearn": "scikit-learn"}  # names of packages that differ from their distributions'


@pytest.mark.parametrize("extra", EXTRAS)
def test_what_is_looked_for_is_in_the_extra(extra: str) -> None:
    names = {Requirement(text).name for text in PROJECT["optional-dependencies"][extra]}
    assert {IMPORTED.get(name, name) for name in EXTRAS[extra]} <= names


def test_the_client_has_none_of_the_extras() -> None:
    client = {Requirement(text).name for text in PROJECT["dependencies"]}
    assert not client & {IMPORTED.get(name, name) for names in EXTRAS.values() for name in names}


def test_nothing_is_said_where_nothing_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lacking("trainyard up", "server") == ""
    monkeypatch.setitem(sys.modules, "django", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "django" else object())
    assert lacking("trainyard up", "server") == "trainyard up needs django: pip install 'trainyard[server]'"


def test_a_module_that_is_missing_leads_to_its_extra() -> None:
    error = ModuleNotFoundError("No module named 'pyarrow.csv'", name="pyarrow.csv")
    assert explained(error, "The recipe tabular") == (
        "The recipe tabular needs pyarrow, which is not installed here: pip install 'trainyard[data]'"
    )
    assert explained(ModuleNotFoundError("no", name="mine"), "The recipe tabular") == ""
