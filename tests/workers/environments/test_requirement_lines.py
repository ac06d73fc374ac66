from __future__ import annotations

import pytest

from workers.environments.pip_files import is_local, name_of, parse, without_credentials
from workers.supervisor.environment import failure_of

LOCK = """# locked
--index-url https://example.org/simple
numpy==2.1.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via torch
-r base.txt   # and these
-e ./lib
torch @ https://example.org/torch.whl#sha256=aa
"""


def test_a_requirement_keeps_its_hashes_and_options_stand_apart() -> None:
    lines = parse(LOCK)
    assert lines.options == ["--index-url https://example.org/simple", "-r base.txt"]
    assert lines.packages == [
        "numpy==2.1.0 --hash=sha256:aa --hash=sha256:bb",
        "-e ./lib",
        "torch @ https://example.org/torch.whl#sha256=aa",
    ]
    assert lines.files == ["base.txt"]
    assert lines.has_hashes
    assert lines.has_local


@pytest.mark.parametrize("text", ["./lib", "-e ../lib", "file:///opt/lib", "lib @ file:///opt/lib", ".", "lib @ ./lib"])
def test_a_package_of_the_code_is_known_by_its_path(text: str) -> None:
    assert is_local(text)


@pytest.mark.parametrize("text", ["numpy", "torch @ https://example.org/t.whl", "a.b>=1"])
def test_a_package_of_an_index_is_not_local(text: str) -> None:
    assert not is_local(text)


def test_names_are_as_indexes_have_them() -> None:
    assert [name_of(one) for one in ("Django_Ninja[x]>=1", "a.b==2", "./lib")] == ["django-ninja", "a-b", ""]


def test_a_line_of_the_log_shows_no_password() -> None:
    line = "Looking in indexes: https://me:secret@example.org/simple, https://example.org/x"
    assert "secret" not in without_credentials(line)
    assert "https://example.org/simple, https://example.org/x" in without_credentials(line)


UV_FAILED = [
    "$ uv pip compile -",
    "  × No solution found when resolving dependencies:",
    "  ╰─▶ Because nosuch was not found in the package registry and you require",
    "      nosuch, we can conclude that your requirements are unsatisfiable.",
    "uv ended with exit code 1",
]


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (
            UV_FAILED,
            "No solution found when resolving dependencies: Because nosuch was not found in the package registry and "
            "you require nosuch, we can conclude that your requirements are unsatisfiable.",
        ),
        (
            ["error: No solution found", "  cause: Because nosuch was not found."],
            "No solution found: Because nosuch was not found.",
        ),
        (
            ["Collecting x", "ERROR: Could not find x", "ERROR: No matching distribution found for x"],
            "Could not find x No matching distribution found for x.",
        ),
        (["all at once"], "all at once."),
        ([], ""),
    ],
)
def test_the_sentence_of_a_failure_is_the_installers_own(lines: list[str], sentence: str) -> None:
    assert failure_of(lines) == sentence
