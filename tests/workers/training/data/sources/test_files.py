from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from workers.data_access import ROOTS
from workers.training.data.problems import DataProblem
from workers.training.data.sources.files import SUFFIXES, content_digest, find_files


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    root = tmp_path / "shelf"
    (root / "more").mkdir(parents=True)
    for name, text in {"b.csv": "two", "a.CSV": "one", "more/c.tsv": "three", "notes.md": "no", ".d.csv": "no"}.items():
        (root / name).write_text(text)
    return root


def test_a_folder_gives_its_files_of_the_kind_in_the_order_of_names(shelf: Path) -> None:
    found = find_files(str(shelf), SUFFIXES["csv"])
    assert found.names == ["a.CSV", "b.csv", "more/c.tsv"]
    assert found.paths == find_files(f"file://{shelf}", SUFFIXES["csv"]).paths
    assert found.size_bytes == len("onetwothree")


def test_links_are_followed_but_not_in_circles(shelf: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "e.csv").write_text("five")
    (shelf / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to(shelf)
    assert find_files(str(shelf), SUFFIXES["csv"]).names[2:] == ["linked/e.csv", "more/c.tsv"]


def test_a_file_may_have_any_name(shelf: Path) -> None:
    assert find_files(str(shelf / "notes.md"), SUFFIXES["csv"]).paths == [shelf / "notes.md"]


def test_the_digest_of_a_file_is_what_sha256sum_says(shelf: Path) -> None:
    digest = hashlib.sha256(b"two").hexdigest()
    assert content_digest(find_files(str(shelf / "b.csv"), ())) == digest
    assert find_files(str(shelf / "b.csv"), (), digest).paths == [shelf / "b.csv"]


def test_the_digest_of_a_folder_is_that_of_what_sha256sum_prints(shelf: Path) -> None:
    command = "find * -type f | LC_ALL=C sort | xargs sha256sum | sha256sum"
    done = subprocess.run(["sh", "-c", command], cwd=shelf, capture_output=True, text=True, check=True)
    assert content_digest(find_files(str(shelf), ())) == done.stdout.split()[0]


def test_a_change_of_the_content_is_seen(shelf: Path) -> None:
    digest = content_digest(find_files(str(shelf), SUFFIXES["csv"]))
    (shelf / "b.csv").write_text("TWO")
    with pytest.raises(DataProblem, match=rf"task\.data\.digest is {digest}, but {shelf} has the content "):
        find_files(str(shelf), SUFFIXES["csv"], digest)


def test_a_change_is_seen_also_where_size_and_time_stay(shelf: Path) -> None:
    path = shelf / "a.CSV"
    before, found = content_digest(find_files(str(path), SUFFIXES["csv"])), path.stat()
    path.write_bytes(path.read_bytes()[::-1])
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert content_digest(find_files(str(path), SUFFIXES["csv"])) != before


def test_what_is_not_there_is_said_with_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_NODE", "blue-1")
    words = (
        r"task\.data\.location is .*/none\.csv, which is not on the node blue-1: put it on every node, or give a URL"
    )
    with pytest.raises(DataProblem, match=words):
        find_files(str(tmp_path / "none.csv"), SUFFIXES["csv"])


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataProblem, match=r"a folder without a file that ends in \.npz: put some there"):
        find_files(str(tmp_path), SUFFIXES["npz"])


def test_a_path_that_begins_nowhere_is_refused() -> None:
    with pytest.raises(DataProblem, match=r"task\.data\.location is rows\.csv: give a whole path, which begins with /"):
        find_files("rows.csv", SUFFIXES["csv"])


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rows.csv")
    with pytest.raises(DataProblem, match="which is neither a file nor a folder"):
        find_files(str(tmp_path / "rows.csv"), SUFFIXES["csv"])


@pytest.mark.parametrize("closed", ["b.csv", "more"])
def test_what_may_not_be_read_is_named(shelf: Path, tmp_path: Path, closed: str) -> None:
    (shelf / closed).chmod(0o000)
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        folder.chmod(folder.stat().st_mode | 0o055)
    code = (
        "import os, sys; sys.path[:0] = sys.argv[2:]\n"
        "from workers.training.data.sources.files import SUFFIXES, find_files\n"
        "if os.getuid() == 0: os.setuid(65534)\n"  # nothing is closed to root
        "try: find_files(sys.argv[1], SUFFIXES['csv'])\n"
        "except ValueError as problem: print(problem)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(shelf), *sys.path], capture_output=True, text=True, check=False
    )
    (shelf / closed).chmod(0o755)
    assert f"{shelf}/{closed} may not be read by user" in done.stdout, done.stderr


def test_what_lies_outside_of_the_folders_of_the_node_is_refused(
    shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret.csv").write_text("secret")
    monkeypatch.setenv(ROOTS, f"{shelf}{os.pathsep}/nowhere")
    assert len(find_files(str(shelf), SUFFIXES["csv"]).paths) == 3
    (shelf / "linked.csv").symlink_to(tmp_path / "secret.csv")
    for location in (tmp_path / "secret.csv", shelf / "linked.csv", shelf, f"file://{tmp_path}/secret.csv"):
        with pytest.raises(DataProblem, match="lies outside of the folders that this node reads data from"):
            find_files(str(location), SUFFIXES["csv"])
    with pytest.raises(DataProblem, match="lies outside of the folders"):
        find_files(f"zip://::{tmp_path}/secret.csv", SUFFIXES["csv"])
