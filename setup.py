"""Puts what the site serves and draws with into the wheel: see docs/decisions/setup.md. All else is in pyproject.toml.

The repository holds no third-party file: those of ``package.json`` are taken from ``node_modules``, which is filled by
npm where it is missing. Nothing of ours is imported here, for no dependency is installed while a wheel is built.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
ASSETS = "dashboard/assets"  # as dashboard/home.py names it
FOLDERS = ("templates", "static", "examples", "docs")
ICONS = "@tabler/icons/icons/outline"


class BuildWithAssets(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:  # an editable install reads the repository itself
            collect(Path(self.build_lib) / ASSETS)


def collect(target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    for name in FOLDERS:
        shutil.copytree(
            ROOT / name,
            target / name,
            ignore=shutil.ignore_patterns("__pycache__", ".*", "*.jpg", "conf.py", "*.rst", "*.csv"),
        )
    with tempfile.TemporaryDirectory() as folder:
        modules = ROOT / "node_modules"
        if not all((modules / file).is_file() for file in third_party()):
            modules = fetched(Path(folder))
        for file in third_party():
            (target / "node_modules" / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(modules / file, target / "node_modules" / file)


def third_party() -> list[str]:
    icons = "dashboard/frontend/icons.py"
    names = {*constant(icons, "ICONS").values(), *constant(icons, "SHARED")}
    return [*constant("dashboard/frontend/storage.py", "ALLOWED"), *(f"{ICONS}/{name}.svg" for name in names)]


def constant(path: str, name: str) -> Any:
    """The value that a module gives to ``name``, without importing it."""
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.Assign) and [ast.unparse(one) for one in node.targets] == [name]:
            return ast.literal_eval(node.value)
    raise SystemExit(f"{path} has no {name}")


def fetched(folder: Path) -> Path:
    """Install package.json beside the repository and return the node_modules."""
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("The wheel needs the packages of package.json: run `make setup` first, or install npm.")
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copyfile(ROOT / name, folder / name)
    words = ["ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund"]
    subprocess.run([npm, *words], cwd=folder, check=True)
    return folder / "node_modules"


setup(cmdclass={"build_py": BuildWithAssets})
