from __future__ import annotations

import os
from pathlib import Path

import pytest

from workers.replicas.folders import (
    FOLDER,
    LIMIT,
    MemoryFolder,
    NoMemoryFolder,
    NoRoom,
    memory_path,
    open_memory,
    used_bytes,
)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {FOLDER: str(tmp_path), LIMIT: str(100_000)}


def test_nodes_of_one_machine_have_one_folder_each(tmp_path: Path, environment: dict[str, str]) -> None:
    first, second = (open_memory(tmp_path / name, environment) for name in ("node-a", "node-b"))
    assert first.path != second.path
    assert open_memory(tmp_path / "node-a", environment) == first
    assert first.limit_bytes == 100_000


def test_a_file_in_its_place_is_refused(tmp_path: Path, environment: dict[str, str]) -> None:
    path = memory_path(tmp_path, environment)
    path.write_text("mine")
    with pytest.raises(NoMemoryFolder, match=f"{path} is no folder: remove it"):
        open_memory(tmp_path, environment)


def test_a_link_in_its_place_is_refused(tmp_path: Path, environment: dict[str, str]) -> None:
    path = memory_path(tmp_path, environment)
    (tmp_path / "elsewhere").mkdir()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NoMemoryFolder, match="is no folder"):
        open_memory(tmp_path, environment)


@pytest.mark.parametrize("limit", ["-1", "1.5", "much"])
def test_a_limit_that_is_no_number_is_refused(limit: str, tmp_path: Path, environment: dict[str, str]) -> None:
    with pytest.raises(NoMemoryFolder, match=f"{LIMIT} is '{limit}'"):
        open_memory(tmp_path, environment | {LIMIT: limit})


def test_a_file_system_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoMemoryFolder, match="none is no folder"):
        open_memory(tmp_path, {FOLDER: str(tmp_path / "none")})


def test_what_does_not_fit_is_refused_with_its_numbers(tmp_path: Path) -> None:
    folder = MemoryFolder(tmp_path, 3 << 20)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "part").write_bytes(bytes(2 << 20))
    folder.refuse_beyond_limit(1 << 20)
    with pytest.raises(NoRoom, match=r"2\.0 MiB more do not fit beside 2\.0 MiB: the node keeps at most 3\.0 MiB"):
        folder.refuse_beyond_limit(2 << 20)
    folder.refuse_beyond_limit(2 << 20, 2 << 20)


def test_a_file_with_two_names_counts_once(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(bytes(1 << 20))
    os.link(tmp_path / "one", tmp_path / "other")
    assert used_bytes(tmp_path) == 1 << 20


def test_a_run_is_freed_by_its_id_alone(tmp_path: Path) -> None:
    folder = MemoryFolder(tmp_path / "node", 1 << 20)
    (tmp_path / "node" / "272bay33uw").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    for name in ("272bay33uw", "../other", ".."):
        folder.free(name)
    assert folder.runs() == {}
    assert (tmp_path / "other").is_dir()
