from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from trainyard.contract.orders import Order
from workers.node.preparation.bundles import Refusal
from workers.node.preparation.interpreters import check_interpreter


def order(**task: Any) -> Order:
    return Order(attempt="a", run="r", fence=1, node_name="lab-1", spec={"task": {"script": "train.py", **task}})


@pytest.mark.parametrize("task", [{}, {"python": ""}, {"python": None}, {"python": sys.executable}, {"python": "sh"}])
def test_an_interpreter_that_is_there_is_accepted(task: dict[str, Any]) -> None:
    check_interpreter(order(**task))


def test_a_name_is_looked_for_where_the_ranks_will_look(tmp_path: Path) -> None:
    (tmp_path / "mine").symlink_to(sys.executable)
    check_interpreter(order(python="mine", environment={"PATH": str(tmp_path)}))
    with pytest.raises(Refusal, match="no program mine on the PATH of lab-1"):
        check_interpreter(order(python="mine"))


@pytest.mark.parametrize(
    ("python", "code", "sentence"),
    [
        ("/nowhere/bin/python", "python_missing", "There is no file /nowhere/bin/python on lab-1, which task.python"),
        ("python-of-nobody", "python_missing", "There is no program python-of-nobody on the PATH of lab-1 ("),
        ("/etc/passwd", "python_not_executable", "/etc/passwd on lab-1, which task.python names, may not be run"),
        ("/usr/bin", "python_not_executable", "/usr/bin on lab-1, which task.python names, is a folder"),
    ],
)
def test_an_interpreter_that_cannot_be_run_is_refused_in_words(python: str, code: str, sentence: str) -> None:
    with pytest.raises(Refusal) as refused:
        check_interpreter(order(python=python))
    assert refused.value.code == code
    assert sentence in str(refused.value)
