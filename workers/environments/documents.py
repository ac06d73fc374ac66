"""Documents of the builder: the tools of the node, the request and the reports; and how installers are run."""

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from trainyard.contract.base import WireStruct, encode
from workers.containers.documents import ContainerImage
from workers.environments.pip_files import without_credentials
from workers.sandbox.process import Sandbox


class NodeTools(WireStruct, kw_only=True):
    """Paths of programs, empty where the node has none. Kept in the node's home, since it holds pip's settings."""

    uv: str = ""
    conda: str = ""
    podman: str = ""
    podman_environment: dict[str, str] = {}  # variables of the node that Podman gets
    pip: dict[str, str] = {}  # its configuration about indexes, which may hold a password

    @property
    def builder(self) -> str:
        return "uv" if self.uv else "pip"

    def capabilities(self) -> list[str]:
        """Return the names of what the node can build with, as its page and its status show them."""
        return [self.builder, *(Path(one).name for one in (self.conda, self.podman) if one)]


class BuildPlan(WireStruct, kw_only=True):
    """One environment. Paths are absolute; those in ``files`` and of kinds lie below ``code``."""

    kind: str  # of KINDS of the spec, or empty for a Python alone
    target: str  # the folder to make
    code: str  # the run's
    store: str  # what the builder may write: it holds the target
    digest: str
    temporary: str  # the builder makes the folder, and removes it
    requirements: list[str] = []
    file: str = ""  # of every other kind
    python: str = ""  # version to look for; empty: ``interpreter``
    interpreter: str = ""
    inherits: bool = False
    needs_code: bool = False  # packages that lie in the code are installed, from a copy
    uv: str = ""
    conda: str = ""
    pip: dict[str, str] = {}
    environment: dict[str, str] = {}  # variables of the node that pass: proxies, certificates
    sandbox: Sandbox = Sandbox()


class BuildProgress(WireStruct, omit_defaults=True):
    """Progress of the builder. ``total`` is 0 until it is known."""

    phase: str = ""  # what it does, as a sentence goes on behind "Building the environment: "
    done: int = 0
    total: int = 0
    python: str = ""  # at the end: the version
    seconds: float = 0.0
    image: ContainerImage | None = None  # at the end, of a container


def words_of(progress: BuildProgress) -> str:
    """Return the progress as a sentence without its full stop."""
    if progress.total:
        noun = "package" if progress.total == 1 else "packages"
        return f"Building the environment: {progress.done} of {progress.total} {noun}"
    return f"Building the environment: {progress.phase}" if progress.phase else "Building the environment"


class BuildFailed(Exception):
    """An installer failed. Its own lines, printed before, say why."""


class Installers:
    """Runs programs that install, prints what they print, and reports how far they are."""

    def __init__(self, progress: int) -> None:
        """``progress`` is the descriptor for reports."""
        self._progress = progress

    def run_program(
        self, words: Sequence[str], *, folder: Path, variables: Mapping[str, str], text: str = ""
    ) -> list[str]:
        """Run a program, which reads ``text``, and return the lines that it has printed. Raises OSError where it cannot
        be started, and CalledProcessError, with the lines, where it fails."""
        self.print(f"$ {' '.join([Path(words[0]).name, *words[1:]])}")
        lines: list[str] = []
        with subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            cwd=folder, env=variables,
        ) as process:  # fmt: skip
            assert process.stdin is not None and process.stdout is not None
            with contextlib.suppress(BrokenPipeError):  # it ended before it read: its own words say why
                process.stdin.write(text)
                process.stdin.close()
            for line in process.stdout:
                lines.append(line.rstrip("\n"))
                self.print(lines[-1])
                self.take_line(lines[-1])
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, words, output="\n".join(lines))
        return lines

    def take_line(self, line: str) -> None:
        """Report what a line of an installer shows."""

    def print(self, line: str) -> None:
        print(without_credentials(line), flush=True)

    def report(self, progress: BuildProgress) -> None:
        with contextlib.suppress(OSError):
            os.write(self._progress, f"{encode(progress)}\n".encode())
