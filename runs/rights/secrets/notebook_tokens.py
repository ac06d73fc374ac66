"""The token that the JupyterLab of a notebook run takes."""

from __future__ import annotations

from django.conf import settings
from django.utils.crypto import salted_hmac

from runs.models import Run

TOKEN_VARIABLE = "JUPYTER_TOKEN"


def token_of(run: Run) -> str:
    """Return the token: known to the server, and to the run's own processes. Whoever else is on its node cannot make
    it."""
    return salted_hmac("runs.notebook", run.pk, secret=settings.SECRET_KEY, algorithm="sha256").hexdigest()
