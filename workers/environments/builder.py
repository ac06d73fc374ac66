"""``python -m workers.environments.builder PARENT DESCRIPTOR``: builds an environment as the user of its ranks.

Reads a BuildPlan from its standard input, writes what the installers print to its standard output, and BuildProgress
to the descriptor that is named. Exits with 0 once the environment is whole.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from trainyard.contract.base import decode, encode
from workers.environments.documents import BuildPlan, BuildProgress
from workers.environments.recipes import conda_recipe, pip_recipe, uv_recipe
from workers.environments.requirement_lines import without_credentials
from workers.environments.steps import BuildFailed, Steps
from workers.machine.processes import die_with_parent, name_process
from workers.sandbox.namespaces import enter_alone

PRIORITY = 5  # ranks of other runs train on this node meanwhile


def main() -> int:
    parent = int(sys.argv[1])
    name_process("ty-environment")
    os.nice(PRIORITY)
    plan = decode(sys.stdin.buffer.read(), BuildPlan, is_secret=True)
    die_with_parent(signal.SIGKILL, parent)
    enter_alone(plan.sandbox)
    die_with_parent(signal.SIGKILL, parent)  # a change of user resets the signal, and a child has none
    os.umask(0o022)
    began = time.monotonic()
    steps = BuilderSteps(plan, progress=int(sys.argv[2]))
    try:
        build(plan, steps)
    except BuildFailed as error:
        steps.print(str(error))
        return 1
    finally:
        shutil.rmtree(steps.work, ignore_errors=True)
        shutil.rmtree(steps.temporary, ignore_errors=True)
    steps.report(BuildProgress(python=version_of(Path(plan.target)), done=steps.done, total=steps.done,
                               seconds=time.monotonic() - began))  # fmt: skip
    return 0


def build(plan: BuildPlan, steps: Steps) -> None:
    """Raises BuildFailed."""
    shutil.rmtree(plan.target, ignore_errors=True)  # what a builder before us left
    if plan.kind == "conda":
        conda_recipe(plan, steps)
    elif plan.uv:
        uv_recipe(plan, steps)
    else:
        pip_recipe(plan, steps)


class BuilderSteps(Steps):
    """Runs installers for real."""

    def __init__(self, plan: BuildPlan, *, progress: int) -> None:
        self._progress = progress
        self._store = f"{plan.store}/"  # whose length would hide what a line says
        self.work = Path(plan.store) / f"work-{plan.digest}"
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.temporary = Path(plan.temporary)
        self.temporary.mkdir(exist_ok=True)
        self.code = Path(plan.code)
        if plan.needs_code:  # builds of local packages write beside their sources
            self.code = Path(shutil.copytree(plan.code, self.work / "code", symlinks=True))
        self._environment = {
            **plan.environment,
            "PATH": plan.environment.get("PATH", os.defpath),
            "HOME": str(self.work),
            "TMPDIR": str(self.temporary),
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        }

    def run(self, words: Sequence[str], variables: dict[str, str], text: str = "") -> str:
        """Run a program in the folder of the code and return what it printed. Raises BuildFailed where it fails."""
        self.print(f"$ {' '.join([Path(words[0]).name, *words[1:]])}")
        try:
            process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE if text else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=self.code,
                env={**self._environment, **variables},
                text=True,
                errors="replace",
            )
        except OSError as error:
            raise BuildFailed(f"{words[0]} cannot be started: {error.strerror or error}") from error
        lines: list[str] = []
        with process:
            if process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):  # it ended before it read: its own words say why
                    process.stdin.write(text)
                    process.stdin.close()
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line)
                self.print(line.rstrip("\n"))
                self.take_line(line)
        if process.returncode:
            raise BuildFailed(f"{Path(words[0]).name} ended with exit code {process.returncode}")
        return "".join(lines)

    def print(self, line: str) -> None:
        print(without_credentials(line.replace(self._store, "")), flush=True)

    def report(self, progress: BuildProgress) -> None:
        with contextlib.suppress(OSError):
            os.write(self._progress, f"{encode(progress)}\n".encode())


def version_of(folder: Path) -> str:
    """Return the version of the environment's Python, by what its makers write down; empty where none is known."""
    with contextlib.suppress(OSError):
        for line in (folder / "pyvenv.cfg").read_text().splitlines():
            name, _, value = line.partition("=")
            if name.strip() in ("version", "version_info"):
                return value.strip()
    return ""


if __name__ == "__main__":
    sys.exit(main())
