"""`python3 -m tests.contributing docs|ray|lock`: what only who works on Trainyard sets up."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from dashboard.setup.__main__ import attempt
from dashboard.setup.node import find_npm
from dashboard.setup.packages import LOCKS, PINNED, TOOLS, Installer
from dashboard.setup.python import make_venv
from dashboard.setup.steps import ROOT, VENV, SetupError, run, step

EXTRAS = ("server", "node", "data")  # all but `train`: torch is chosen per machine
DOCS_FOLDER = ROOT / ".venv-docs"


def ensure_ray() -> None:
    """Add the library Ray to `.venv`, once. Only clusters of that engine need it, and it is large."""
    lock, done = LOCKS / "ray.lock", VENV / "ray.lock"
    if done.exists() and done.read_bytes() == lock.read_bytes():
        return
    with step("Ray") as notes:
        installer = Installer()
        notes.append(f"by {installer.name}")
        installer.install([*PINNED, lock], "Ray could not be installed. Is a package index reachable?")
        shutil.copyfile(lock, done)


def ensure_docs() -> None:
    """Install what draws the documentation beside `.venv`, once, with the client, whose docstrings are a page."""
    lock, done = LOCKS / "docs.lock", DOCS_FOLDER / "docs.lock"
    if done.exists() and done.read_bytes() == lock.read_bytes():
        return
    with step("Sphinx"):
        run([sys.executable, "-m", "venv", "--without-pip", "--clear", DOCS_FOLDER], f"Could not make {DOCS_FOLDER}.")
        installer = Installer(DOCS_FOLDER / "bin" / "python")
        installer.install([*PINNED, lock], "Sphinx could not be installed. Is a package index reachable?")
        shutil.copyfile(lock, done)


def make_locks() -> None:
    make_venv()
    Installer()  # brings uv
    make_python_locks()
    make_npm_lock()


def make_python_locks() -> None:
    """Resolve anew for every platform and Python that we support. Addresses of indexes stay out of the files."""
    uv = TOOLS / "bin" / "uv"
    if not uv.exists():
        raise SetupError("Making locks needs uv, which could not be fetched for this platform.")
    compile_ = [str(uv), "pip", "compile", "--quiet", "--no-config", "--upgrade", "--universal", "--generate-hashes"]
    compile_ += ["--python-version=3.11", "--no-header", "--no-annotate", f"--override={LOCKS / 'without.txt'}"]
    project: list[str | Path] = ["pyproject.toml", *(word for name in EXTRAS for word in ("--extra", name))]
    groups: dict[str, list[str | Path]] = {
        "runtime": [*project, "--group", "torch-needs"],
        "dev": [*project, "--group", "torch-needs", "--group", "dev", "-c", LOCKS / "runtime.lock"],
        "ray": ["pyproject.toml", "--extra", "ray", "-c", LOCKS / "dev.lock"],
        "docs": ["pyproject.toml", "--group", "docs", "-c", LOCKS / "dev.lock"],
        "installer": ["--group", "installer"],
        "node": ["--group", "node"],
        "peers": ["--group", "peers"],
    }
    for name, words in groups.items():
        with step(f"requirements/{name}.lock"):
            lock = LOCKS / f"{name}.lock"
            run([*compile_, *words, "--output-file", lock], f"{lock.name} could not be resolved; see above.")


def make_npm_lock() -> None:
    with step("package-lock.json"), tempfile.TemporaryDirectory() as folder:
        # Elsewhere, because npm reads what is installed here and then leaves the integrity out.
        for name in ("package.json", ".npmrc"):
            shutil.copy(ROOT / name, folder)
        npm, changes = find_npm()
        words = [*npm, "install", "--package-lock-only", "--ignore-scripts"]
        run(words, "npm could not resolve package.json.", changes, cwd=Path(folder))
        shutil.copy(Path(folder) / "package-lock.json", ROOT)


WORK = {"docs": ensure_docs, "ray": ensure_ray, "lock": make_locks}

if __name__ == "__main__":
    sys.exit(attempt(WORK[sys.argv[1]]))
