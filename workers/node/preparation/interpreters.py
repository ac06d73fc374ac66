"""The interpreter that a spec names for its script: found on this node before anything starts, or refused in words."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from trainyard.contract.orders import Order
from workers.node.preparation.bundles import CannotRunHere
from workers.sandbox.node import NO_ISOLATION, Isolation
from workers.supervisor.ranks.environment import path_of


def check_interpreter(order: Order, isolation: Isolation = NO_ISOLATION) -> None:
    """Raise Refusal unless the order's ``task.python``, and the program of its ``task.command``, may be run here."""
    task = order.spec["task"]
    own_path = (task.get("environment") or {}).get("PATH")
    if python := task.get("python"):
        if "/" not in python:
            _check_name(python, own_path, order.node_name, isolation)
        else:
            _check_path(python, order.node_name, isolation)
    program = str((task.get("command") or [""])[0])
    if program and "/" not in program and "${" not in program:
        _check_name(program, own_path or path_of(task), order.node_name, isolation, "task.command")


def is_program(python: str, isolation: Isolation, path: str = "") -> bool:
    """Return whether the ranks of a project may run it: a path, or a name on ``path``. The node worker may be root, who
    sees more than they do and must not tell."""
    if "/" not in python:
        return any(
            is_program(f"{folder}/{python}", isolation)
            for folder in (path or os.environ.get("PATH", os.defpath)).split(os.pathsep)
            if folder
        )
    try:
        mode = 0 if isolation.problem_of(python) else Path(python).stat().st_mode
    except OSError:  # it is not there, or a folder on the way may not be passed
        return False
    may_run = mode & stat.S_IXOTH if isolation.is_other_user else os.access(python, os.X_OK)
    return stat.S_ISREG(mode) and bool(may_run)


def _check_name(name: str, own_path: str | None, node: str, isolation: Isolation, field: str = "task.python") -> None:
    """``own_path`` is the PATH that the spec gives its ranks, where it does: that is where a rank will look."""
    path = own_path or os.environ.get("PATH", os.defpath)
    if not is_program(name, isolation, path):
        raise CannotRunHere(
            "program_missing" if field == "task.command" else "python_missing",
            f"There is no program {name} on the PATH of {node} ({path[:200]}), which {field} names: install it "
            f"there, or name {'it' if field == 'task.command' else 'an interpreter'} by its whole path.",
        )


def _check_path(python: str, node: str, isolation: Isolation) -> None:
    if problem := isolation.problem_of(python):  # before anything is said of what is there
        raise CannotRunHere("python_not_executable", f"task.python on {node}: {problem}.")
    path = Path(python)
    try:
        is_there, is_file = path.exists(), path.is_file()
    except OSError:  # a folder on the way that we may not enter
        is_there = is_file = False
    if not is_there:
        raise CannotRunHere(
            "python_missing",
            f"There is no file {path} on {node}, which task.python names: make the environment there "
            "(python -m venv), or name an interpreter that is.",
        )
    if not is_program(python, isolation):
        what = "may not be run by the user of the ranks" if is_file else "is a folder and no program"
        raise CannotRunHere(
            "python_not_executable",
            f"{path} on {node}, which task.python names, {what}: name an interpreter, such as its bin/python.",
        )
