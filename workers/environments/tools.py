"""The programs of a node that build environments, found once as the node worker starts."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from workers.containers.probing import find_podman, podman_environment
from workers.environments.documents import NodeTools
from workers.environments.pip_configuration import configuration
from workers.sandbox.node import NO_ISOLATION, Isolation

CONDAS = ("micromamba", "mamba", "conda")


def find_tools(environment: Mapping[str, str], isolation: Isolation = NO_ISOLATION) -> NodeTools:
    """Return the node's programs. One that the user of a project's ranks may not run counts as missing."""
    prefix = Path(sys.prefix)
    path = environment.get("PATH", os.defpath)
    own = [prefix / "bin" / "uv", prefix / "tools" / "bin" / "uv"]
    return NodeTools(
        uv=_first([*_on_path(["uv"], path), *own], isolation),
        conda=_first(_on_path(CONDAS, path), isolation),
        podman=find_podman(environment),
        podman_environment=podman_environment(environment),
        pip=configuration(environment, prefix),
    )


def _on_path(names: Iterable[str], path: str) -> list[Path]:
    return [Path(found) for name in names if (found := shutil.which(name, path=path))]


def _first(candidates: Iterable[Path], isolation: Isolation) -> str:
    usable = (os.fspath(one) for one in candidates if os.access(one, os.X_OK) and one.is_file())
    return next((one for one in usable if not isolation.problem_of(one)), "")
