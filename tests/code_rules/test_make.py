"""The Makefile says in one list what people and CI can ask, and the README repeats it."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
PHONY = re.search(r"^\.PHONY:(.*)$", MAKEFILE, re.MULTILINE)
TARGETS = PHONY.group(1).split() if PHONY else []
VARIABLES = ["ONCE", "PORT", "HOST", "NODES", "TRAINYARD_HOME"]


def make(*words: str) -> str:
    # Under `make test` this is a make inside a make, which would announce the folder it enters.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(["make", *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture(scope="module")
def help_text() -> str:
    return make("help")


def test_every_rule_is_a_listed_target() -> None:
    rules = re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE)
    assert sorted(rules) == sorted(TARGETS)


@pytest.mark.parametrize("target", TARGETS)
def test_help_lists_the_target_with_a_sentence(help_text: str, target: str) -> None:
    assert re.search(rf"^  make {target} +\S.{{10,}}$", help_text, re.MULTILINE)


@pytest.mark.parametrize("target", TARGETS)
def test_the_readme_documents_the_target(target: str) -> None:
    assert f"`make {target}" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("variable", VARIABLES)
def test_the_readme_documents_the_variable(variable: str) -> None:
    assert f"`{variable}" in (ROOT / "README.md").read_text()


def test_the_readme_names_no_target_that_is_not_there() -> None:
    text = "".join((ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md"))
    assert set(re.findall(r"`make ([a-z-]+)", text)) <= set(TARGETS)
