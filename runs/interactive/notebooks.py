"""Notebook runs: where their JupyterLab listens, and the token that it takes."""

from __future__ import annotations

import hmac

from runs.engines.control_hints import control_key
from runs.models import Run
from runs.refused import Refused

TOKEN_VARIABLE = "JUPYTER_TOKEN"


def is_notebook(run: Run) -> bool:
    return bool(run.spec.get("task", {}).get("notebook"))


def token_of(run: Run) -> str:
    """Return the token of the run's JupyterLab: known to the server, and to the run's own processes. Whoever else is on
    its node cannot make it."""
    key = bytes.fromhex(control_key())
    return hmac.digest(key, f"notebook:{run.pk}".encode(), "sha256").hex()


def port_of(run: Run) -> int:
    """Return where JupyterLab listens on its node. Raises Refused where none runs."""
    attempt = run.live_attempt()
    placement = attempt.placements.order_by("first_rank").first() if attempt is not None else None
    if not is_notebook(run) or placement is None or placement.port is None:
        raise Refused("no-notebook", f"Run {run.name} has no notebook that runs now.")
    return placement.port
