"""A contract of ``lint-imports``: each package folder is named by another contract, so that its place is decided."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

ROOT = Path(__file__).resolve().parents[2]
NAME = re.compile(r"[A-Za-z_][\w.]*")


class EveryFolderIsNamed(Contract):
    """Keeps where every package below ``packages`` is a layer of some layers contract in pyproject.toml."""

    packages = fields.SetField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        named = set(named_layers(tomllib.loads((ROOT / "pyproject.toml").read_text())))
        missing = sorted(name for package in self.packages for name in folders_of(str(package)) if name not in named)
        return ContractCheck(kept=not missing, metadata={"missing": missing})

    def render_broken_contract(self, check: ContractCheck) -> None:
        output.print_error("These package folders are in no layers contract of pyproject.toml:")
        for name in check.metadata["missing"]:
            output.indent_cursor()
            output.print_error(f"- {name}", bold=False)


def folders_of(package: str) -> Iterator[str]:
    """Yield the dotted names of all packages below ``package``; Django writes those of migrations."""
    for path in sorted((ROOT / package).rglob("__init__.py")):
        name = ".".join(path.parent.relative_to(ROOT).parts)
        if name != package and "migrations" not in path.parts:
            yield name


def named_layers(pyproject: dict[str, Any]) -> Iterator[str]:
    """Yield the dotted names of the layers of every layers contract."""
    for contract in pyproject["tool"]["importlinter"]["contracts"]:
        if contract["type"] == "layers":
            for layer in contract["layers"]:
                for name in NAME.findall(layer):
                    yield from (f"{container}.{name}" for container in contract.get("containers", []))
