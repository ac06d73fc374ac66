"""Notebook runs: where their JupyterLab listens."""

from __future__ import annotations

from runs.models import Run
from runs.refused import Refused


def is_notebook(run: Run) -> bool:
    return bool(run.spec.get("task", {}).get("notebook"))


def port_of(run: Run) -> int:
    """Return where JupyterLab listens on its node. Raises Refused where none runs."""
    attempt = run.live_attempt()
    placement = attempt.placements.order_by("first_rank").first() if attempt is not None else None
    if not is_notebook(run) or placement is None or placement.port is None:
        raise Refused("no-notebook", f"Run {run.name} has no notebook that runs now.")
    return placement.port
