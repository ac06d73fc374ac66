from __future__ import annotations

from typing import Any

import pytest

from trainyard.spec import SpecError, form_fields, parse_spec
from trainyard.spec.sections.container import CREDENTIALS
from trainyard.spec.sections.environment import environment_of, secret_references

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
        ({"reqs": ["a"]}, "environment.reqs", "accepted here: requirements, pyproject, lock, conda, container, python"),
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


@pytest.mark.parametrize(
    ("container", "path", "words"),
    [
        ("docker://x", "image", "must be an image such as"),
        ("oci-archive:x.tar", "image", "must name an archive by its whole path"),
        ("oci-archive:/data/../etc/x.tar", "image", "must name an archive by its whole path"),
        ({"image": "a", "file": "Containerfile"}, "file", "stands beside environment.container.image"),
        ({"file": "../Containerfile"}, "file", "must be a path inside the code's folder"),
        ({"image": "a", "credentials": "not-one"}, "credentials", "must be the name of a secret"),
        ({"image": "oci-archive:/x.tar", "credentials": "A"}, "credentials", "is for a registry"),
        ({"name": "a"}, "name", "accepted here: image, file, credentials"),
    ],
)
def test_a_bad_container_is_refused_by_field_and_value(container: Any, path: str, words: str) -> None:
    assert words in problems({**SCRIPT, "environment": {"container": container}})[f"environment.container.{path}"]


def test_a_text_is_the_image_of_a_container() -> None:
    empty = {"image": "", "file": "", "credentials": ""}
    assert resolved(container="")["container"] == empty, "specs of runs that were resolved before"
    assert environment_of(parse_spec(SCRIPT).resolved()) is None
    image = f"registry.example:5000/team/image:1@sha256:{'a' * 64}"
    assert resolved(container=image)["container"] == {**empty, "image": image}
    document = {**SCRIPT, "environment": {"container": {"image": "x", "credentials": "mine:REGISTRY"}}}
    found = secret_references(parse_spec(document).resolved())
    assert [(one.variable, one.name, one.is_personal) for one in found] == [(CREDENTIALS, "REGISTRY", True)]
    assert "environment.container.image" in {info.path for info in form_fields()}


def test_a_container_has_one_kind_of_environment_and_its_own_interpreter() -> None:
    both = {**SCRIPT, "environment": {"container": "x", "requirements": ["a"]}}
    assert "stands beside environment.requirements" in problems(both)["environment.container"]
    python = {**SCRIPT, "environment": {"container": "x", "python": "3.12"}}
    assert "environment.container says by itself" in problems(python)["environment.python"]
    parse_spec(
        {"name": "x", "task": {"script": "t.py", "python": "/opt/bin/python"}, "environment": {"container": "x"}}
    )
    recipe = {"name": "x", "task": {"recipe": "tabular"}, "environment": {"container": "x"}}
    assert "is for a script" in problems(recipe)["environment"]
