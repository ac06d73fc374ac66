"""A recipe on a node without the packages that it reads its data with."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from trainyard.spec.sections.tasks import TabularTask
from workers.training.recipes import load_task


def test_a_recipe_says_which_extra_it_lacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path / "cache"))  # samples that were made before need no package
    for name in [name for name in sys.modules if name.startswith("workers.training.data.")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    task = TabularTask(recipe="tabular")
    with pytest.raises(ModuleNotFoundError, match=r"The recipe tabular needs pyarrow.*trainyard\[data\]"):
        load_task(task, seed=0, device=torch.device("cpu"))
