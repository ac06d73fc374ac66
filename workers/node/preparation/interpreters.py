"""The interpreter that a spec names for its script: found on this node before anything starts, or refused in words."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from trainyard.contract.orders import Order
from workers.node.preparation.bundles import Refusal
from workers.sandbox.node import NO_ISOLATION, Isolation
from workers.supervisor.ranks.environment import path_of


def check_interpreter(order: Order, isolation: Isolation = NO_ISOLATION) -> None:
    """Raise Refusal unless the order's ``task.python``, and the program of its ``task.command``, may be run here."""
    task = order.spec["task"]
    if python := task.get("python"):
        if "/" not in python:
            _check_name(python, (task.get("environment") or {}).get("PATH"), order.node_name)
        else:
            _check_path(Path(python), order.node_name)
            if problem := isolation.problem_of(python):
                raise Refusal("python_not_executable", f"task.python on {order.node_name}: {problem}.")
    program = str((task.get("command") or [""])[0])
    if program and "/" not in program and "${" not in program:
        _check_name(
            program, (task.get("environment") or {}).get("PATH") or path_of(task), order.node_name, "task.command"
        )


def _check_name(name: str, own_path: str | None, node: str, field: str = "task.python") -> None:
    """``own_path`` is the PATH that the spec gives its ranks, where it does: that is where a rank will look."""
    path = own_path or os.environ.get("PATH", os.defpath)
    if shutil.which(name, path=path) is None:
        raise Refusal(
            "program_missing" if field == "task.command" else "python_missing",
            f"There is no program {name} on the PATH of {node} ({path[:200]}), which {field} names: install it "
            f"there, or name {'it' if field == 'task.command' else 'an interpreter'} by its whole path.",
        )


def _check_path(path: Path, node: str) -> None:
    try:
        is_there, is_file = path.exists(), path.is_file()
    except OSError:  # a folder on the way that we may not enter
        is_there = is_file = False
    if not is_there:
        raise Refusal(
            "python_missing",
            f"There is no file {path} on {node}, which task.python names: make the environment there "
            "(python -m venv), or name an interpreter that is.",
        )
    if not is_file or not os.access(path, os.X_OK):
        what = "may not be run by the user of the node worker" if is_file else "is a folder and no program"
        raise Refusal(
            "python_not_executable",
            f"{path} on {node}, which task.python names, {what}: name an interpreter, such as its bin/python.",
        )
