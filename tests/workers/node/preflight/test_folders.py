"""A folder takes files, or it is said why not."""

from __future__ import annotations

from pathlib import Path

from tests.disks import disk_of_1_mb, fill
from workers.node.preflight.folders import check_folder


def test_a_folder_takes_files_and_keeps_nothing_of_the_test(tmp_path: Path) -> None:
    state = check_folder(tmp_path)
    assert not state.problem and state.free_bytes and state.total_bytes and state.path == str(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_yet_is_judged_by_the_one_above(tmp_path: Path) -> None:
    assert not check_folder(tmp_path / "checkpoints" / "of" / "mine").problem
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    file = tmp_path / "checkpoints"
    file.write_text("")
    assert check_folder(file).problem == "is a file, not a folder"
    assert check_folder(file / "deeper").problem == f"cannot be made: {file} is a file"


def test_a_full_disk_takes_no_files(tmp_path: Path) -> None:
    with disk_of_1_mb(tmp_path / "disk") as folder:
        assert not check_folder(folder).problem
        fill(folder)
        state = check_folder(folder)
    assert state.problem == "takes no files: no space left on device"
    assert state.free_bytes == 0
