from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainyard.spec.sections.environment import EnvironmentSection
from workers.environments.content import BadEnvironment, Content, read_content


def content(code: Path, **section: Any) -> Content:
    return read_content(EnvironmentSection(**section), code)


def digest(one: Content, **changes: str) -> str:
    return one.digest(**{"code": "c1", "builder": "uv", **changes})


def test_a_digest_follows_the_files_and_nothing_else_of_the_code(tmp_path: Path) -> None:
    (tmp_path / "base.txt").write_text("numpy==2.1\n")
    (tmp_path / "all.txt").write_text("-r base.txt\ntqdm\n")
    first = content(tmp_path, requirements="all.txt")
    assert first.files == {"all.txt": "-r base.txt\ntqdm\n", "base.txt": "numpy==2.1\n"}
    assert digest(first) == digest(content(tmp_path, requirements=["-r all.txt"]), code="c2")
    assert digest(first) != digest(first, builder="pip")
    (tmp_path / "base.txt").write_text("numpy==2.2\n")
    assert digest(first) != digest(content(tmp_path, requirements="all.txt"))


def test_packages_that_lie_in_the_code_make_its_digest_count(tmp_path: Path) -> None:
    found = content(tmp_path, requirements=["./lib"])
    assert found.needs_code
    assert digest(found) != digest(found, code="c2")


@pytest.mark.parametrize(
    ("section", "files", "sentence"),
    [
        ({"lock": "uv.lock"}, {}, "environment.lock: there is no file uv.lock in the run's code."),
        ({"lock": "uv.lock"}, {"uv.lock": "version = 1"}, "there is no file pyproject.toml in the run's code"),
        ({"lock": "uv.lock"}, {"uv.lock": "version = "}, "environment.lock: uv.lock is no TOML"),
        ({"lock": "all.txt"}, {"all.txt": "numpy>=2\n"}, "all.txt pins no version of numpy>=2"),
        ({"pyproject": "a.toml"}, {"a.toml": "[tool]"}, "environment.pyproject: a.toml has no [project] table"),
        (
            {"requirements": "a.txt"},
            {"a.txt": "-r ../b.txt"},
            "a.txt names ../b.txt, which leads out of the run's code",
        ),
        ({"requirements": "a.txt"}, {"a.txt": "-r b.txt"}, "there is no file b.txt in the run's code"),
        ({"conda": "e.yml"}, {}, "environment.conda: there is no file e.yml in the run's code."),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_field(
    tmp_path: Path, section: dict[str, Any], files: dict[str, str], sentence: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(BadEnvironment) as refused:
        content(tmp_path, **section)
    assert sentence in str(refused.value)


def test_a_link_out_of_the_code_is_not_followed(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (tmp_path / "secret.txt").write_text("numpy==1\n")
    (code / "all.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(BadEnvironment, match=r"all\.txt leads out of the run's code"):
        content(code, requirements="all.txt")


def test_files_that_name_each_other_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("-r b.txt\n")
    (tmp_path / "b.txt").write_text("-r a.txt\nnumpy==2\n")
    assert set(content(tmp_path, requirements="a.txt").files) == {"a.txt", "b.txt"}


def test_members_of_a_workspace_are_built_from_the_code(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    (tmp_path / "uv.lock").write_text('[[package]]\nname = "x"\nsource = { virtual = "." }\n')
    assert not content(tmp_path, lock="uv.lock").needs_code
    (tmp_path / "uv.lock").write_text('[[package]]\nname = "lib"\nsource = { editable = "lib" }\n')
    assert content(tmp_path, lock="uv.lock").needs_code
