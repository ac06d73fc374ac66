"""JupyterLab in the place of a script: its options, and the folder that a person works in."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from trainyard.contract.base import SpecDocument
from trainyard.spec.values.durations import seconds_of

IDLE = "60m"  # where an older server names none
LOOPBACK = "127.0.0.1"
MAX_COPIED_BYTES = 50 * 1024 * 1024  # of notebooks in the code


def words_of(spec: SpecDocument, variables: Mapping[str, str], output: Path) -> list[str]:
    """Return what follows the interpreter. It listens at MASTER_PORT, which the node has reserved and the server knows.
    The token is a variable, which the server alone chose: a command line is seen by others."""
    idle_s = max(1, round(seconds_of((spec.get("limits") or {}).get("idle") or IDLE)))
    options = {
        "ServerApp.ip": LOOPBACK,
        "ServerApp.port": variables["MASTER_PORT"],
        "ServerApp.port_retries": 0,
        "ServerApp.open_browser": False,
        "ServerApp.allow_root": True,  # where its user is the node's own; the sandbox decides about that
        "ServerApp.root_dir": output,
        "ServerApp.shutdown_no_activity_timeout": idle_s,
        "MappingKernelManager.cull_idle_timeout": idle_s,
        "MappingKernelManager.cull_interval": max(1, min(60, idle_s // 4)),
        "MappingKernelManager.cull_connected": True,  # a page that is left open is no use
        "TerminalManager.cull_inactive_timeout": idle_s,
        "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
        "LabApp.news_url": None,  # no question whether to fetch news, which lie on the Internet
    }
    return ["-m", "jupyterlab", *(f"--{name}={value}" for name, value in options.items())]


def prepare(environment: Mapping[str, str], code: Path, output: Path) -> dict[str, str]:
    """Bring the notebooks of the code into the output folder, where a person works: what is saved there is kept. Return
    the environment in which kernels import the code."""
    left = MAX_COPIED_BYTES
    for path in sorted(code.rglob("*.ipynb")):
        place = output / path.relative_to(code)
        if place.exists() or path.is_symlink() or path.stat().st_size > left:
            continue
        left -= path.stat().st_size
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
    return {
        **environment,
        "PYTHONPATH": os.pathsep.join([str(code), *filter(None, [environment.get("PYTHONPATH", "")])]),
        "JUPYTER_RUNTIME_DIR": f"{environment['TMPDIR']}/j",
    }
