from __future__ import annotations

from typing import Any

import pytest

from trainyard.spec import SpecError, form_fields, parse_spec
from trainyard.spec.sections.environment import environment_of

SCRIPT: dict[str, Any] = {"name": "x", "task": {"script": "train.py"}}


def resolved(**environment: Any) -> dict[str, Any]:
    found: dict[str, Any] = parse_spec({**SCRIPT, "environment": environment}).resolved()["environment"]
    return found


def problems(document: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(SpecError) as refused:
        parse_spec(document)
    return {one.path: one.message for one in refused.value.errors}


def test_a_file_is_an_entry_of_the_list() -> None:
    assert resolved(requirements="requirements.txt")["requirements"] == ["-r requirements.txt"]
    assert resolved(requirements=["numpy>=2", " -r base.txt"])["requirements"] == ["numpy>=2", "-r base.txt"]


def test_a_version_may_be_written_as_a_number() -> None:
    assert resolved(requirements=["a"], python=3.12)["python"] == "3.12"
    assert resolved(requirements=["a"], python=3.1)["python"] == "3.10"


def test_without_a_word_ranks_run_in_the_nodes_own() -> None:
    assert environment_of(parse_spec(SCRIPT).resolved()) is None
    assert environment_of({}) is None
    assert environment_of({"environment": {"python": "3.12"}}) is not None


@pytest.mark.parametrize(
    ("section", "path", "words"),
    [
        ({"requirements": ["a"], "lock": "uv.lock"}, "environment.lock", "stands beside environment.requirements"),
        ({"lock": "poetry.lock"}, "environment.lock", "must be uv.lock, pylock.toml"),
        ({"lock": "../uv.lock"}, "environment.lock", "must be a path inside the code's folder"),
        ({"requirements": ["--index-url x"]}, "environment.requirements.0", "options of pip belong into its"),
        ({"requirements": ["-r /etc/x"]}, "environment.requirements.0", "must be a path inside the code's folder"),
        ({"requirements": ["a"], "python": "2.7"}, "environment.python", 'must be a version such as "3.12"'),
        ({"conda": "e.yml", "python": "3.12"}, "environment.python", "environment.conda says by itself"),
        ({"requirements": ["a"], "python": "3.12", "inherit": True}, "environment.inherit", "belong to the node's own"),
        ({"requirements": ["a"], "limit": "0s"}, "environment.limit", "must be more than 0s"),
        ({"reqs": ["a"]}, "environment.reqs", "accepted here: requirements, pyproject, lock, conda, python"),
    ],
)
def test_what_cannot_be_is_refused_by_field_and_value(section: dict[str, Any], path: str, words: str) -> None:
    assert words in problems({**SCRIPT, "environment": section})[path]


def test_an_interpreter_of_ones_own_and_an_environment_are_two() -> None:
    document = {
        "name": "x",
        "task": {"script": "t.py", "python": "/bin/python"},
        "environment": {"requirements": ["a"]},
    }
    assert "stands beside environment" in problems(document)["task.python"]


def test_a_recipe_refuses_an_environment_in_words() -> None:
    document = {"name": "x", "task": {"recipe": "tabular"}, "environment": {"requirements": ["a"]}}
    assert "is for a script" in problems(document)["environment"]


def test_a_container_is_refused_by_name_and_no_field_of_the_form() -> None:
    assert (
        "is not built yet" in problems({**SCRIPT, "environment": {"container": "python:3.12"}})["environment.container"]
    )
    assert not any("container" in f"{info.path} {info.help}".lower() for info in form_fields())
    assert "container" not in resolved(container=""), "specs of runs that were resolved before"
