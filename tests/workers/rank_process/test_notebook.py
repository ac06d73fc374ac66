"""JupyterLab's options, and the folder that a person works in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from workers.rank_process import notebook

PORT = {"MASTER_PORT": "4321"}


def options(**limits: Any) -> dict[str, str]:
    words = notebook.words_of({"limits": limits} if limits else {}, PORT, Path("/home/output"))
    assert words[:2] == ["-m", "jupyterlab"]
    assert all(word.startswith("--") for word in words[2:])
    return dict(word.removeprefix("--").split("=", 1) for word in words[2:])


def test_it_listens_on_the_loopback_at_the_runs_own_port_and_no_other() -> None:
    found = options()
    assert found["ServerApp.ip"] == "127.0.0.1"
    assert (found["ServerApp.port"], found["ServerApp.port_retries"]) == ("4321", "0")
    assert found["ServerApp.root_dir"] == "/home/output"
    assert not any("token" in name.lower() or "password" in name.lower() for name in found), "others see the words"


def test_it_asks_the_internet_for_nothing() -> None:
    found = options()
    assert found["LabApp.news_url"] == "None"
    assert found["LabApp.check_for_updates_class"] == "jupyterlab.NeverCheckForUpdate"


@pytest.mark.parametrize(
    ("limits", "idle_s", "interval_s"),
    [({}, 3600, 60), ({"idle": "2m"}, 120, 30), ({"idle": "3s"}, 3, 1), ({"idle": None}, 3600, 60)],
)
def test_kernels_terminals_and_the_server_end_when_nobody_uses_them(
    limits: dict[str, Any], idle_s: int, interval_s: int
) -> None:
    found = options(**limits)
    names = ("ServerApp.shutdown_no_activity_timeout", "MappingKernelManager.cull_idle_timeout")
    assert [found[name] for name in (*names, "TerminalManager.cull_inactive_timeout")] == [str(idle_s)] * 3
    assert found["MappingKernelManager.cull_interval"] == str(interval_s)
    assert found["MappingKernelManager.cull_connected"] == "True"


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    code, output = tmp_path / "code", tmp_path / "output"
    (code / "deep").mkdir(parents=True)
    output.mkdir()
    return code, output


def test_notebooks_of_the_code_are_copied_to_where_they_are_kept(folders: tuple[Path, Path]) -> None:
    code, output = folders
    (code / "deep" / "one.ipynb").write_text("of the code")
    (code / "mine.py").write_text("ANSWER = 42")
    notebook.prepare({"TMPDIR": "/tmp/x"}, code, output)
    assert [path.relative_to(output).as_posix() for path in output.rglob("*.*")] == ["deep/one.ipynb"]
    (output / "deep" / "one.ipynb").write_text("of the person")
    notebook.prepare({"TMPDIR": "/tmp/x"}, code, output)
    assert (output / "deep" / "one.ipynb").read_text() == "of the person", "what was saved stays"


def test_a_link_leads_to_no_copy_of_another_file(folders: tuple[Path, Path], tmp_path: Path) -> None:
    code, output = folders
    (tmp_path / "secret").write_text("of the node")
    (code / "link.ipynb").symlink_to(tmp_path / "secret")
    notebook.prepare({"TMPDIR": "/tmp/x"}, code, output)
    assert not list(output.iterdir())


def test_no_more_is_copied_than_the_limit(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "MAX_COPIED_BYTES", 10)
    code, output = folders
    for name, size in (("a", 6), ("b", 5), ("c", 4)):
        (code / f"{name}.ipynb").write_text("x" * size)
    notebook.prepare({"TMPDIR": "/tmp/x"}, code, output)
    assert sorted(path.name for path in output.iterdir()) == ["a.ipynb", "c.ipynb"], "b would be beyond it"


@pytest.mark.parametrize(("before", "after"), [("", "{code}"), ("/own/lib", "{code}:/own/lib")])
def test_kernels_import_the_code_first(folders: tuple[Path, Path], before: str, after: str) -> None:
    code, output = folders
    given = {"TMPDIR": "/tmp/x", "PYTHONPATH": before, "OTHER": "kept"}
    found = notebook.prepare(given, code, output)
    assert found["PYTHONPATH"] == after.format(code=code)
    assert (found["JUPYTER_RUNTIME_DIR"], found["OTHER"]) == ("/tmp/x/j", "kept")
    assert given["PYTHONPATH"] == before, "the variables of the rank are its own"
