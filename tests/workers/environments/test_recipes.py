"""Which programs build an environment: recorded, not run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from workers.environments import builder
from workers.environments.documents import BuildFailed, BuildPlan, BuildProgress, words_of
from workers.environments.pip_files import configuration, for_pip, for_uv

RESOLVED = "".join(f"package-{number}=={number}.0\n" for number in range(18))


class Recorded(builder.Steps):
    def __init__(self, folder: Path, resolved: str = RESOLVED) -> None:
        self.work, self.code = folder / "work", folder / "code"
        self.work.mkdir()
        self.code.mkdir()
        self._resolved = resolved
        self.ran: list[list[str]] = []
        self.texts: list[str] = []
        self.variables: dict[str, str] = {}
        self.seen: list[str] = []

    def run(self, words: Sequence[str], variables: dict[str, str], text: str = "") -> str:
        self.ran.append(list(words))
        self.texts.append(text)
        self.variables |= variables
        if "--output-file" in words:
            Path(words[words.index("--output-file") + 1]).write_text(self._resolved)
        return "Successfully installed a-1 b-2\n"

    def report(self, progress: BuildProgress) -> None:
        self.seen.append(words_of(progress))


def plan(folder: Path, **changes: Any) -> BuildPlan:
    known = {
        "kind": "requirements", "target": f"{folder}/env", "code": f"{folder}/code", "store": str(folder),
        "digest": "d", "temporary": f"{folder}/tmp", "interpreter": "/usr/bin/python3", "uv": "/bin/uv",
    }  # fmt: skip
    return BuildPlan(**{**known, **changes})


def test_uv_resolves_and_then_installs_part_by_part(tmp_path: Path) -> None:
    steps = Recorded(tmp_path)
    builder.uv_recipe(plan(tmp_path, requirements=["einops", "-r more.txt", "-c limits.txt"]), steps)
    assert [words[1:3] for words in steps.ran] == [
        ["venv", "--no-project"],
        ["pip", "compile"],
        *[["pip", "install"]] * 3,
    ]
    assert steps.texts[1] == "einops\n"
    assert {"more.txt", "-"} <= set(steps.ran[1])
    assert steps.ran[1][steps.ran[1].index("-c") + 1] == "limits.txt"
    assert [one for one in steps.seen if " of " in one] == [
        f"Building the environment: {done} of 18 packages" for done in (0, 8, 16, 18)
    ]
    assert ["--compile-bytecode" in words for words in steps.ran[2:]] == [False, False, True]


def test_a_lock_is_installed_as_it_stands_by_its_hashes(tmp_path: Path) -> None:
    steps = Recorded(tmp_path)
    (steps.code / "all.txt").write_text("numpy==2 --hash=sha256:aa\n")
    builder.uv_recipe(plan(tmp_path, kind="lock", file="all.txt"), steps)
    assert len(steps.ran) == 2
    assert {"--require-hashes", "--no-deps"} <= set(steps.ran[1])


def test_a_lock_of_uv_is_read_without_the_project_and_its_development_groups(tmp_path: Path) -> None:
    steps = Recorded(tmp_path, "numpy==2 --hash=sha256:aa\n")
    builder.uv_recipe(plan(tmp_path, kind="lock", file="sub/uv.lock"), steps)
    assert {"export", "--frozen", "--no-dev", "--no-emit-project"} <= set(steps.ran[1])
    assert steps.ran[1][steps.ran[1].index("--project") + 1] == str(steps.code / "sub")


def test_what_the_node_has_in_a_fitting_version_is_not_installed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builder, "installed", lambda: ["package-0==0.0", "package-1==9.0", "torch==2.13.0+cpu"])
    steps = Recorded(tmp_path, "package-0==0.0\npackage-1==1.0\n")
    packages = tmp_path / "env" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    builder.uv_recipe(plan(tmp_path, requirements=["package-1"], inherits=True), steps)
    assert (steps.work / "overrides.txt").read_text() == "torch ; sys_platform == 'never'\n"
    assert (steps.work / "part.txt").read_text() == "package-1==1.0\n"
    assert (packages / builder.INHERITED).read_text()


def test_what_the_node_has_as_a_working_copy_is_found_by_an_environment_that_inherits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages, copy = tmp_path / "nöde's" / "site-packages", tmp_path / "copy"
    packages.mkdir(parents=True)
    copy.mkdir()
    (copy / "worked_on.py").write_text("")
    (packages / "usual.py").write_text("")
    (packages / "worked_on.pth").write_text(f"{copy}\n")  # as an editable install leaves it
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    monkeypatch.setattr(sys, "path", [str(packages)])
    builder.inherit(tmp_path / "env")
    subprocess.run([tmp_path / "env" / "bin" / "python", "-c", "import usual, worked_on"], check=True)


def test_without_uv_the_nodes_pip_does_it(tmp_path: Path) -> None:
    steps = Recorded(tmp_path)
    builder.pip_recipe(plan(tmp_path, uv="", requirements=["einops", "-r more.txt"]), steps)
    assert steps.ran[0][1:3] == ["-m", "venv"]
    assert steps.ran[1][-3:] == ["einops", "-r", "more.txt"]
    assert steps.seen[-1] == "Building the environment: 2 of 2 packages"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"python": "3.12"}, "no uv, which finds Python 3.12"),
        ({"kind": "lock", "file": "uv.lock"}, "no uv, which reads uv.lock"),
        ({"inherits": True}, "no uv, which installs beside"),
    ],
)
def test_what_only_uv_can_is_refused_in_words(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BuildFailed, match=sentence):
        builder.pip_recipe(plan(tmp_path, uv="", **changes), Recorded(tmp_path))


@pytest.mark.parametrize(
    ("name", "words"), [("micromamba", ["create", "--yes"]), ("conda", ["env", "create", "--yes"])]
)
def test_conda_makes_the_whole_environment(tmp_path: Path, name: str, words: list[str]) -> None:
    steps = Recorded(tmp_path)
    builder.conda_recipe(plan(tmp_path, kind="conda", file="e.yml", conda=f"/opt/{name}"), steps)
    assert steps.ran == [[f"/opt/{name}", *words, "--prefix", f"{tmp_path}/env", "--file", "e.yml"]]


def test_pips_configuration_counts_for_both(tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = https://me:x@example.org/simple\n[install]\nfind_links = /w /v\n"
    )
    environment = {
        "HOME": str(tmp_path / "nobody"),
        "XDG_CONFIG_DIRS": str(tmp_path),
        "PIP_EXTRA_INDEX_URL": "https://b/s",
    }
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip.conf").rename(tmp_path / "pip" / "pip.conf")
    found = configuration({**environment, "PIP_CERT": "/ca.pem", "PIP_NO_INDEX": "1"}, tmp_path / "prefix")
    assert found["index-url"] == "https://me:x@example.org/simple" or Path("/etc/pip.conf").exists()
    own = {"index-url": "https://i/s", "find-links": "/w /v", "no-index": "1", "timeout": "5", "cert": "/ca.pem"}
    assert for_uv(own) == {
        "UV_DEFAULT_INDEX": "https://i/s", "UV_FIND_LINKS": "/w,/v", "UV_NO_INDEX": "1", "UV_HTTP_TIMEOUT": "30",
        "SSL_CERT_FILE": "/ca.pem", "UV_INDEX_STRATEGY": "unsafe-best-match",
    }  # fmt: skip
    assert for_pip(own)["PIP_FIND_LINKS"] == "/w /v"
    assert for_pip(own)["PIP_CONFIG_FILE"] == os.devnull
