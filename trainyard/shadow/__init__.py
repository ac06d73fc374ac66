"""Shadow: what a script sends to W&B, MLflow, TensorBoard or a CSV file goes to Trainyard too, with no changed line.

``trainyard shadow -- python train.py`` starts the program with a hook (``hook/sitecustomize.py``). Once the program
imports one of the libraries, a module here follows its calls: see ``trainyard.shadow.mirror``.
"""

import os
from pathlib import Path

HOOK = Path(__file__).resolve().parent / "hook"
VARIABLE = "TRAINYARD_SHADOW"  # "on", or "only"
PROJECT = "TRAINYARD_SHADOW_PROJECT"


def variables(python_path: str | None, *, only: bool = False, project: str | None = None) -> dict[str, str]:
    """Return what the environment of a program needs so that it and its children are followed."""
    made = {"PYTHONPATH": f"{HOOK}{os.pathsep}{python_path}" if python_path else str(HOOK)}
    return {**made, VARIABLE: "only" if only else "on", **({PROJECT: project} if project else {})}
