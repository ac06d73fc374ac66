from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.servers import short_folder
from tests.workers.control import ControlledNode
from workers.rank_process.cold_start import why_cold


@pytest.mark.parametrize(
    ("environment", "word"),
    [
        ({}, ""),
        ({"MINE": "1", "HF_TOKEN": "x", "TORCH_HOME": "/x", "CUDA_LAUNCH_BLOCKING": "1", "TMPDIR": "/x"}, ""),
        ({"PYTHONHASHSEED": "0"}, "PYTHONHASHSEED"),
        ({"OMP_NUM_THREADS": "4"}, "OMP_NUM_THREADS"),
        ({"TORCH_LOGS": "+dynamo"}, "TORCH_LOGS"),
        ({"SKLEARN_ASSUME_FINITE": "1"}, "SKLEARN_ASSUME_FINITE"),
        ({"LD_PRELOAD": "/x.so"}, "LD_PRELOAD"),
    ],
)
def test_variables_that_are_read_at_the_start_need_an_interpreter_of_ones_own(
    environment: dict[str, str], word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    why = why_cold({"script": "train.py", "environment": environment}, tmp_path)
    assert word in why and bool(why) == bool(word)


def test_modules_that_would_be_hidden_by_ours_need_one_too(tmp_path: Path) -> None:
    task = {"script": "train.py", "environment": {"PYTHONPATH": "src"}}
    for name in ("train.py", "workers.py", "numpy_tools.py"):
        (tmp_path / name).touch()
    (tmp_path / "src" / "httpx").mkdir(parents=True)
    assert why_cold(task, tmp_path) == ""  # a folder without __init__.py hides nothing
    (tmp_path / "src" / "httpx" / "__init__.py").touch()
    assert "src/httpx has the name of a module" in why_cold(task, tmp_path)
    (tmp_path / "src" / "httpx" / "__init__.py").unlink()
    (tmp_path / "src" / "sitecustomize.py").touch()
    assert "sitecustomize.py" in why_cold(task, tmp_path)


def lines(node: ControlledNode, script: str, **environment: str) -> tuple[list[str], list[str]]:
    task: dict[str, Any] = {"script": "train.py", "environment": environment}
    order = node.order(script, spec={"task": task})
    node.launch(order)
    report = node.wait_for(order, "ended")
    assert report["reason"] is None, report
    node.wait_until_shipped(order)
    return node.lines(order), node.lines(order, "stderr")


def test_a_rank_that_starts_cold_by_itself_says_so_in_its_log(calm_node: ControlledNode) -> None:
    out, err = lines(calm_node, "import sys; print(hash('x'), 'torch' in sys.modules)", PYTHONHASHSEED="0")
    assert out[0].endswith("False")
    assert err[0].startswith("Trainyard: this rank starts in an interpreter of its own") and "PYTHONHASHSEED" in err[0]


def test_folders_of_pythonpath_and_tmpdir_count_in_a_warm_rank(calm_node: ControlledNode) -> None:
    script = "import only_there, sys, tempfile; print(only_there.word, tempfile.gettempdir(), 'torch' in sys.modules)"
    with short_folder("ty-path-") as folder:
        folder.chmod(0o777)  # its ranks may be another user's
        (folder / "only_there.py").write_text("word = 'there'")
        (folder / "only_there.py").chmod(0o644)
        out, err = lines(calm_node, script, PYTHONPATH=str(folder), TMPDIR=str(folder))
        assert (out, err) == ([f"there {folder} True"], [])
