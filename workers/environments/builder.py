"""``python -m workers.environments.builder PARENT DESCRIPTOR``: builds an environment as the user of its ranks.

Reads a BuildPlan from its standard input, writes what the installers print to its standard output, and BuildProgress
to the descriptor that is named. Exits with 0 once the environment is whole.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from trainyard.contract.base import decode
from trainyard.spec.sections.environment import file_of
from workers.environments import pip_files
from workers.environments.content import installed
from workers.environments.documents import BuildFailed, BuildPlan, BuildProgress, Installers
from workers.environments.pip_files import RequirementLines, name_of, parse
from workers.machine.processes import die_with_parent, name_process
from workers.sandbox.namespaces import enter_alone

_COLLECTING = re.compile(r"Collecting \S")
_DOWNLOADING = re.compile(r"(?:Downloading|Building) (\S+)")
PART = 8  # packages that are installed at once, after which progress is reported
QUIET = ("--no-header", "--no-annotate", "--no-config")
# With `inherit` these are the node's own, built for its devices; an index has other builds under the same version.
OF_TORCH = ("torch", "torchvision", "torchaudio", "triton", "pytorch-triton")
INHERITED = "_trainyard_inherited.pth"
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
    steps = Steps(plan, progress=int(sys.argv[2]))
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


def build(plan: BuildPlan, steps: "Steps") -> None:
    """Raises BuildFailed."""
    shutil.rmtree(plan.target, ignore_errors=True)  # what a builder before us left
    if plan.kind == "conda":
        conda_recipe(plan, steps)
    elif plan.uv:
        uv_recipe(plan, steps)
    else:
        pip_recipe(plan, steps)


class Steps(Installers):
    done = 0  # packages that are there
    total = 0

    def __init__(self, plan: BuildPlan, *, progress: int) -> None:
        super().__init__(progress)
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
        own = {**self._environment, **variables}
        try:
            return "\n".join(self.run_program(words, folder=self.code, variables=own, text=text))
        except OSError as error:
            raise BuildFailed(f"{words[0]} cannot be started: {error.strerror or error}") from error
        except subprocess.CalledProcessError as error:
            raise BuildFailed(f"{Path(words[0]).name} ended with exit code {error.returncode}") from error

    def print(self, line: str) -> None:
        super().print(line.replace(self._store, ""))

    def phase(self, words: str) -> None:
        self.report(BuildProgress(phase=words))

    def count(self, done: int, total: int) -> None:
        self.done, self.total = done, total
        self.report(BuildProgress(done=done, total=total))

    def take_line(self, line: str) -> None:
        line = line.strip()
        if _COLLECTING.match(line):
            self.done += 1
            self.phase(f"{self.done} packages found")
        elif not self.total and (found := _DOWNLOADING.match(line)):
            self.phase(f"fetching {found[1]}")


def version_of(folder: Path) -> str:
    """Return the version of the environment's Python, by what its makers write down; empty where none is known."""
    with contextlib.suppress(OSError):
        for line in (folder / "pyvenv.cfg").read_text().splitlines():
            name, _, value = line.partition("=")
            if name.strip() in ("version", "version_info"):
                return value.strip()
    return ""


# Builds of an environment with each installer: which programs run, one after the other.
#
# uv resolves first and then installs part by part, so that somebody who waits sees how far it is. A lock is installed
# as it stands, by its hashes where it has some.


def uv_recipe(plan: BuildPlan, steps: Steps) -> None:
    variables = {
        **pip_files.for_uv(plan.pip),
        "UV_CACHE_DIR": f"{plan.store}/downloads/uv",
        "UV_PYTHON_INSTALL_DIR": f"{plan.store}/pythons",
        "UV_NO_PROGRESS": "1",
    }
    steps.phase("making it")
    python = plan.python or plan.interpreter
    steps.run([plan.uv, "venv", "--no-project", "--no-config", "--python", python, plan.target], variables)
    lines = _resolved_by_uv(plan, steps, variables)
    if plan.inherits:
        present = {one.partition("==")[0]: one for one in installed()}
        lines = lines._replace(packages=[one for one in lines.packages if not _is_present(one, present)])
    _install_by_uv(plan, steps, variables, lines)
    if plan.inherits:
        inherit(Path(plan.target))


def _resolved_by_uv(plan: BuildPlan, steps: Steps, variables: dict[str, str]) -> RequirementLines:
    """Return every package of the environment with its version."""
    name = PurePosixPath(plan.file).name
    if plan.kind == "lock" and name.endswith(".txt"):
        return parse((steps.code / plan.file).read_text())
    out = steps.work / "resolved.txt"
    if plan.kind == "lock" and name == "uv.lock":
        steps.phase("reading the lock")
        project = str((steps.code / plan.file).parent)
        words = [plan.uv, "export", "--quiet", "--frozen", "--no-dev", "--no-emit-project", "--no-header"]
        words += ["--no-annotate", "--python", f"{plan.target}/bin/python", "--project", project]
        steps.run([*words, "--format", "requirements-txt", "--output-file", str(out)], variables)
        return parse(out.read_text())
    if plan.kind == "lock":  # pylock.toml is installed as it is: see below
        return RequirementLines([f"-r {plan.file}"], [])
    wanted = _wanted(plan)
    if not any(wanted):
        return RequirementLines([], [])
    steps.phase("resolving packages")
    words = [plan.uv, "pip", "compile", "--quiet", *QUIET, "--python", f"{plan.target}/bin/python"]
    if plan.inherits:
        words += ["--override", str(_overrides(steps.work))]
        out.write_text("\n".join(installed()))  # uv prefers the versions of a file that it is to replace
    files, text = wanted
    words += [*files, *(["-"] if text else [])]
    steps.run([*words, "--output-file", str(out)], variables, text)
    return parse(out.read_text())


def _wanted(plan: BuildPlan) -> tuple[list[str], str]:
    """Return the files to resolve, and the text of what is no file."""
    if plan.kind == "pyproject":
        return [plan.file], ""
    files: list[str] = []
    packages: list[str] = []
    for one in plan.requirements:
        file = file_of(one)
        if file is None:
            packages.append(one)
        else:
            files += ["-c", file] if one.startswith(("-c", "--c")) else [file]
    return files, "".join(f"{one}\n" for one in packages)


def _install_by_uv(plan: BuildPlan, steps: Steps, variables: dict[str, str], lines: RequirementLines) -> None:
    base = [plan.uv, "pip", "install", "--no-config", "--no-deps", "--python", f"{plan.target}/bin/python"]
    if plan.kind == "lock" and plan.file.endswith(".toml"):
        steps.phase("installing the lock")
        steps.run([*base, "--compile-bytecode", *lines.options[0].split(maxsplit=1)], variables)
        return
    total = len(lines.packages)
    steps.count(0, total)
    hashed = ["--require-hashes"] if lines.has_hashes else []
    options = [one for one in lines.options if file_of(one) is None]
    for start in range(0, total, PART):
        part = lines.packages[start : start + PART]
        done = start + len(part)
        file = steps.code / ".trainyard-part.txt" if plan.needs_code else steps.work / "part.txt"
        file.write_text("\n".join([*options, *(_installable(one) for one in part)]) + "\n")
        last = ["--compile-bytecode"] if done == total else []
        steps.run([*base, *hashed, *last, "-r", str(file)], variables)
        steps.count(done, total)


def _installable(requirement: str) -> str:
    """A package of the code is installed, and not linked: its folder is gone when ranks run."""
    options = ("-e ", "--editable ", "--editable=")
    return next((requirement.removeprefix(one).strip() for one in options if requirement.startswith(one)), requirement)


def _overrides(work: Path) -> Path:
    """Write for uv that what comes with torch is never installed."""
    path = work / "overrides.txt"
    names = [one.partition("==")[0] for one in installed()]
    kept = [one for one in names if one in OF_TORCH or one.startswith("nvidia-")]
    path.write_text("".join(f"{one} ; sys_platform == 'never'\n" for one in kept))
    return path


def _is_present(requirement: str, present: dict[str, str]) -> bool:
    """Return whether the node's environment has the package in that very version."""
    own = present.get(name_of(requirement))
    return own is not None and requirement.split(";")[0].split()[0] == own


def inherit(target: Path) -> None:
    """Let the environment find the node's own packages behind its own."""
    packages = next((target / "lib").glob("python*/site-packages"))
    own = [one for one in sys.path if Path(one).name in ("site-packages", "dist-packages")]
    # Not as plain paths: of those nothing would read the .pth files, by which packages are found that one works on.
    (packages / INHERITED).write_text("".join(f"import site; site.addsitedir({one!a})\n" for one in own))


def pip_recipe(plan: BuildPlan, steps: Steps) -> None:
    """Build without uv: with Python's own venv, and the node's pip."""
    if plan.python:
        raise BuildFailed(f"This node has no uv, which finds Python {plan.python}: install uv there, or leave it out")
    if plan.kind == "lock" and plan.file.endswith((".toml", ".lock")):
        raise BuildFailed(f"This node has no uv, which reads {plan.file}: install uv there, or export requirements")
    if plan.inherits:
        raise BuildFailed("This node has no uv, which installs beside the node's own packages: install uv there")
    steps.phase("making it")
    steps.run([plan.interpreter, "-m", "venv", plan.target], {})
    wanted = _words_for_pip(plan, steps)
    if not wanted:
        return
    steps.phase("resolving packages")
    words = [f"{plan.target}/bin/python", "-m", "pip", "install", "--progress-bar", "off", *wanted]
    variables = {**pip_files.for_pip(plan.pip), "PIP_CACHE_DIR": str(Path(plan.store) / "downloads" / "pip")}
    text = steps.run(words, variables)
    installed_line = next((one for one in reversed(text.splitlines()) if one.startswith("Successfully installed")), "")
    number = len(installed_line.split()) - 2 if installed_line else 0
    steps.count(number, number)


def _words_for_pip(plan: BuildPlan, steps: Steps) -> list[str]:
    if plan.kind == "lock":
        return ["--no-deps", "-r", plan.file]
    if plan.kind == "pyproject":
        document = tomllib.loads((steps.code / plan.file).read_text())
        if "dependencies" in document["project"].get("dynamic", []):
            raise BuildFailed(f"This node has no uv, which reads the dynamic dependencies of {plan.file}")
        return [str(one) for one in document["project"].get("dependencies", [])]
    words: list[str] = []
    for one in plan.requirements:
        file = file_of(one)
        option = "-c" if one.startswith(("-c", "--c")) else "-r"
        words += [one] if file is None else [option, file]
    return words


def conda_recipe(plan: BuildPlan, steps: Steps) -> None:
    """conda solves, fetches and links in one program, whose lines say how far it is."""
    name = Path(plan.conda).name
    store = Path(plan.store)
    variables = {
        "MAMBA_ROOT_PREFIX": str(store / "downloads" / "conda"),
        "CONDA_PKGS_DIRS": str(store / "downloads" / "conda" / "pkgs"),
        **pip_files.for_pip(plan.pip),  # of its `pip:` part
    }
    steps.phase(f"{name} solves and fetches")
    own = ["create", "--yes"] if name == "micromamba" else ["env", "create", "--yes"]
    steps.run([plan.conda, *own, "--prefix", plan.target, "--file", plan.file], variables)
    number = len(list((Path(plan.target) / "conda-meta").glob("*.json")))
    steps.count(number, number)


if __name__ == "__main__":
    sys.exit(main())
