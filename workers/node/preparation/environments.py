"""The node's environments: what it can build them with, and how much of the disk they take."""

import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from workers.containers.probing import find_podman, podman_environment
from workers.containers.removal import remove_leftovers
from workers.environments.documents import NodeTools
from workers.environments.pip_configuration import configuration
from workers.environments.store import EnvironmentStore
from workers.sandbox.node import NO_ISOLATION, Isolation

LIMIT = "TRAINYARD_ENVIRONMENTS_LIMIT_BYTES"
DEFAULT_LIMIT_BYTES = 50 * 2**30
CONDAS = ("micromamba", "mamba", "conda")


class Environments:
    """Found out once, as the node worker starts. Supervisors build; here is only what no single attempt does."""

    def __init__(self, home: Path, isolation: Isolation) -> None:
        self._home = home
        self._store = EnvironmentStore(home)
        self.tools = find_tools(os.environ, isolation)
        self._store.record_tools(self.tools)
        self._limit_bytes = limit_bytes()

    def make_room(self) -> None:
        """Delete what a killed builder left, and what was used least recently where all take more than the limit."""
        self._store.remove_unfinished()
        self._store.make_room(self._limit_bytes)
        if self.tools.podman:
            remove_leftovers(self.tools.podman, self._home)


def limit_bytes() -> int:
    """Return the setting. Raises ValueError for one that is no number of bytes."""
    text = os.environ.get(LIMIT, "")
    if text and not text.isdecimal():
        raise ValueError(f"{LIMIT} is {text!r}: it is a number of bytes, such as {DEFAULT_LIMIT_BYTES}")
    return int(text) if text else DEFAULT_LIMIT_BYTES


def find_tools(environment: Mapping[str, str], isolation: Isolation = NO_ISOLATION) -> NodeTools:
    """Return the node's programs. One that the user of a project's ranks may not run counts as missing."""
    prefix = Path(sys.prefix)
    path = environment.get("PATH", os.defpath)
    return NodeTools(
        uv=_first([*_on_path(["uv"], path), prefix / "bin" / "uv", prefix / "tools" / "bin" / "uv"], isolation),
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
