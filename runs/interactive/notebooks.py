"""Notebook runs: where their JupyterLab listens."""

from __future__ import annotations

from runs.models import Run
from runs.values.refused import Refused
from trainyard.contract.base import convert
from trainyard.contract.orders import Go


def is_notebook(run: Run) -> bool:
    return bool(run.spec.get("task", {}).get("notebook"))


def port_of(run: Run) -> int:
    """Return where JupyterLab listens on its node. Raises Refused where none runs."""
    attempt = run.live_attempt()
    if not is_notebook(run) or attempt is None or not attempt.go:
        raise Refused("no-notebook", f"Run {run.name} has no notebook that runs now.")
    return convert(attempt.go, Go).master_port
