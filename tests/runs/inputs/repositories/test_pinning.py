"""Code from Git: real repositories, over a path of the server. What goes wrong is a sentence at its field."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runs import actions
from runs.inputs.repositories.mirrors import difference, mirrors_root
from runs.models import CodeBundle, GitKey, Run, RunCode, bundle_of
from runs.records.files.paths import bundle_path
from tests.cast import Cast
from tests.git_servers import Repository
from trainyard.bundle import unpack
from trainyard.contract.base import JsonObject
from trainyard.spec import SpecError


@pytest.fixture
def repository(tmp_path: Path, settings: Any) -> Repository:
    settings.GIT_FILE_ROOTS = [str(tmp_path)]
    made = Repository(tmp_path / "code")
    made.commit("First lines", train="print(1)\n")
    return made


def submit(cast: Cast, code: JsonObject | str, **task: Any) -> Run:
    return actions.submit_run(
        actor=cast.mate, document={"name": "x", "task": {"script": "train.py", "code": code, **task}}
    )


def refused(cast: Cast, code: JsonObject | str, **task: Any) -> tuple[str, str]:
    with pytest.raises(SpecError) as error:
        submit(cast, code, **task)
    assert not Run.objects.exists()
    return error.value.errors[0]


def files_of(run: Run, folder: Path) -> dict[str, str]:
    names = unpack(bundle_path(bundle_of(run)).read_bytes(), folder)
    return {name: (folder / name).read_text() for name in names if (folder / name).is_file()}


def test_a_branch_is_pinned_to_its_commit_and_the_next_run_gets_the_newer_one(
    cast: Cast, repository: Repository, tmp_path: Path
) -> None:
    first = submit(cast, {"git": repository.url, "revision": "main"})
    newer = repository.commit("Second lines", train="print(2)\n")
    second = submit(cast, {"git": repository.url, "revision": "main"})
    assert first.spec["task"]["code"]["revision"] == "main"
    code = RunCode.objects.get(run=second)
    assert (code.commit, code.branch, code.subject, code.author) == (newer, "main", "Second lines", "Ada")
    assert code.previous == RunCode.objects.get(run=first).commit
    assert files_of(first, tmp_path / "a") == {"train.py": "print(1)\n"}
    assert files_of(second, tmp_path / "b") == {"train.py": "print(2)\n"}
    found = difference(cast.project, code)
    assert found is not None and "-print(1)\n+print(2)\n" in found.patch


def test_a_commit_that_is_here_needs_no_other_side_and_is_packed_once(cast: Cast, repository: Repository) -> None:
    commit = repository.git("rev-parse", "HEAD")
    first = submit(cast, {"git": repository.url, "revision": commit})
    repository.folder.rename(repository.folder.with_name("away"))
    second = submit(cast, {"git": repository.url, "revision": commit})
    assert bundle_of(first) == bundle_of(second) and CodeBundle.objects.count() == 1


def test_a_tag_names_its_commit_and_an_older_commit_can_be_fetched(
    cast: Cast, repository: Repository, tmp_path: Path
) -> None:
    old = repository.git("rev-parse", "HEAD")
    repository.git("tag", "-a", "v1", "-m", "one")
    repository.commit("Second", train="print(2)\n")
    by_tag = RunCode.objects.get(run=submit(cast, f"{repository.url}@v1"))
    assert (by_tag.commit, by_tag.branch) == (old, "")
    repository.commit("Third", train="print(3)\n")
    run = submit(cast, {"git": repository.url, "revision": repository.git("rev-parse", "HEAD~1")})
    assert files_of(run, tmp_path / "a") == {"train.py": "print(2)\n"}


def test_a_folder_of_a_repository_with_modes_and_links(cast: Cast, repository: Repository, tmp_path: Path) -> None:
    folder = repository.folder / "models" / "gpt"
    folder.mkdir(parents=True)
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "same.sh").symlink_to("run.sh")
    (folder / "out.sh").symlink_to("/etc/passwd")
    (folder / "parts").mkdir()
    (folder / "parts" / "one.py").write_text("one = 1\n")
    (folder / "linked").symlink_to("parts")
    (folder / ".gitattributes").write_text("*.sh export-ignore filter=evil\n")
    repository.commit("A model")
    code = {"git": repository.url, "path": "models/gpt"}
    run = submit(cast, code, script="", command=["./run.sh"])
    files = files_of(run, tmp_path / "a")
    assert set(files) == {"run.sh", "same.sh", "parts/one.py", ".gitattributes"}
    assert files["same.sh"] == files["run.sh"]
    assert (tmp_path / "a" / "linked").readlink() == Path("parts")
    assert (tmp_path / "a" / "run.sh").stat().st_mode & 0o100
    assert RunCode.objects.get(run=run).remarks == ["Left out: links that lead to no file of the code (out.sh)."]


def test_a_patch_lies_over_the_commit(cast: Cast, repository: Repository, tmp_path: Path) -> None:
    commit = repository.git("rev-parse", "HEAD")
    (repository.folder / "train.py").write_text("print('changed')\n")
    patch = repository.git("diff", "--binary", "HEAD") + "\n"
    code = {"git": repository.url, "revision": commit, "patch": patch}
    assert files_of(submit(cast, code), tmp_path / "a") == {"train.py": "print('changed')\n"}
    assert files_of(submit(cast, {**code, "patch": ""}), tmp_path / "b") == {"train.py": "print(1)\n"}


def test_submodules_are_fetched_where_they_are_wanted(cast: Cast, repository: Repository, tmp_path: Path) -> None:
    below = Repository(tmp_path / "below")
    below.commit("Below", tools="word = 1\n")
    repository.git("submodule", "--quiet", "add", "../below", "lib")
    repository.commit("With a submodule")
    without = submit(cast, {"git": repository.url})
    assert set(files_of(without, tmp_path / "a")) == {"train.py", ".gitmodules"}
    assert "submodules (lib)" in RunCode.objects.get(run=without).remarks[0]
    whole = submit(cast, {"git": repository.url, "submodules": True})
    assert files_of(whole, tmp_path / "b")["lib/tools.py"] == "word = 1\n"


Change = Callable[[Repository], JsonObject]


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        (lambda it: {"revision": "mian"}, "revision", "has no branch, tag or commit mian: push it first, or name one"),
        (lambda it: {"revision": "f" * 40}, "revision", "has no branch, tag or commit ffff"),
        (lambda it: {"revision": "abcdef12"}, "revision", "write all 40 digits"),
        (lambda it: {"path": "nowhere"}, "path", "has no folder nowhere at commit"),
        (lambda it: {"path": "train.py"}, "path", "has no folder train.py at commit"),
        (lambda it: {"patch": "nonsense\n"}, "patch", "does not apply to commit"),
        (lambda it: {"git": f"{it.url}-gone"}, "git", "there is no repository at"),
        (lambda it: {"git": "file:///etc"}, "git", "outside of the folders that GIT_FILE_ROOTS"),
        (lambda it: {"git": "https://127.0.0.1/a/b"}, "git", "which is an address of this machine"),
        (lambda it: {"git": "https://169.254.169.254/a/b"}, "git", "which is an address of this machine"),
        (lambda it: {"git": "https://localhost:1/a/b"}, "git", "code is fetched from there where TRAINYARD_DATA_HOSTS"),
        (
            lambda it: {"git": "https://no-such-host.invalid/a/b"},
            "git",
            "there is no host no-such-host.invalid as seen",
        ),
        (lambda it: {"git": "git@127.0.0.1:a/b"}, "git", "which is an address of this machine"),
    ],
    ids=range(13),
)
def test_what_cannot_be_had_is_a_sentence_at_its_field(
    change: Change, field: str, words: str, cast: Cast, repository: Repository
) -> None:
    path, sentence = refused(cast, {"git": repository.url, **change(repository)})
    assert path == f"task.code.{field}" and words in sentence, (path, sentence)


def test_code_with_files_of_git_lfs_is_refused_by_their_names(
    cast: Cast, repository: Repository, tmp_path: Path
) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"
    (repository.folder / "weights").mkdir()
    (repository.folder / "weights" / "model.bin").write_text(pointer)
    (repository.folder / "README.md").write_text(f"A pointer begins so:\n{pointer}")
    repository.commit("Weights")
    path, words = refused(cast, repository.url)
    assert path == "task.code.path"
    assert words.startswith("weights/model.bin is a file of Git LFS, which is not fetched from file://"), words
    assert "upload the code as a folder" in words
    (repository.folder / "train").mkdir()
    (repository.folder / "train" / "train.py").write_text("print(1)\n")
    repository.commit("A folder without them")
    run = submit(cast, {"git": repository.url, "path": "train"})
    assert files_of(run, tmp_path / "a") == {"train.py": "print(1)\n"}


def test_a_server_without_roots_fetches_from_no_path(cast: Cast, repository: Repository, settings: Any) -> None:
    settings.GIT_FILE_ROOTS = []
    assert "only where its GIT_FILE_ROOTS names it" in refused(cast, {"git": repository.url})[1]


def test_a_script_that_the_commit_does_not_have_is_refused(cast: Cast, repository: Repository) -> None:
    path, sentence = refused(cast, {"git": repository.url}, script="tarin.py")
    assert path == "task.script" and "'tarin.py'" in sentence.replace('"', "'") and "at commit" in sentence


def test_a_repository_above_the_limit_is_refused(cast: Cast, repository: Repository, settings: Any) -> None:
    settings.GIT_LIMIT_BYTES = 1_000
    (repository.folder / "large.bin").write_bytes(b"".join(bytes([n % 251]) * n for n in range(6_000)))
    repository.commit("Large")
    path, sentence = refused(cast, {"git": repository.url})
    assert path == "task.code.git" and "GIT_LIMIT_BYTES" in sentence


def test_the_least_recently_used_copies_go_first(
    cast: Cast, repository: Repository, tmp_path: Path, settings: Any
) -> None:
    other = Repository(tmp_path / "other")
    other.commit("Other", train="print()\n")
    submit(cast, {"git": repository.url})
    settings.GIT_CACHE_BYTES = 1
    submit(cast, {"git": other.url})
    assert len([one for one in mirrors_root().glob("*/*.git") if one.is_dir()]) == 1


def test_ssh_needs_a_key_of_the_project(cast: Cast, repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_DATA_HOSTS", "127.0.0.1")
    path, sentence = refused(cast, {"git": "git@127.0.0.1:a/b"})
    assert path == "task.code.git" and "add a deploy key" in sentence


def test_a_secret_is_locked_in_the_database(cast: Cast) -> None:
    key = actions.add_git_key(
        actor=cast.owner,
        project=cast.project,
        kind=GitKey.Kind.TOKEN,
        place="https://Example.org/team/",
        secret="tok-123",
    )
    assert key.place == "example.org/team"
    row = GitKey.objects.values().get(pk=key.pk)
    assert "tok-123" not in str(row)
