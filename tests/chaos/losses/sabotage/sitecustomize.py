"""Python loads this at its start when this folder is on PYTHONPATH, and so in every process of an `up` that the test
starts with it: what CHAOS_SABOTAGE names does not work there. The checker must then find what went wrong.

``deduplication``  ingest stores every frame that comes, also those that it has
``watermarks``     a supervisor takes what it sent for committed, so that it sends nothing again
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

PATCHES: dict[str, Callable[[Any], None]] = {}


def patch_of(sabotage: str, module: str) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    def note(patch: Callable[[Any], None]) -> Callable[[Any], None]:
        if os.environ.get("CHAOS_SABOTAGE") == sabotage:
            PATCHES[module] = patch
        return patch

    return note


@patch_of("deduplication", "runs.ingest.commit")
def accept_everything(commit: Any) -> None:
    original = commit._Commit._accept

    def accept(self: Any, row: Any, items: Any) -> list[Any]:
        items = sorted(items, key=lambda item: item.sequence)
        repeated = [item for item in items if item.sequence <= row.watermark]
        return repeated + list(original(self, row, items))

    commit._Commit._accept = accept


@patch_of("watermarks", "workers.supervisor.records.shipper")
def send_nothing_again(shipping: Any) -> None:
    assert shipping.Shipper._rewind
    shipping.Shipper._rewind = lambda self, tails, **how: None


@patch_of("watermarks", "workers.node.zygote_keeper")
def pass_sabotage_on(keeper: Any) -> None:
    """The warm process, of which supervisors are forked, is given a chosen few variables."""
    keeper.ZYGOTE_VARIABLES = (*keeper.ZYGOTE_VARIABLES, "PYTHONPATH", "CHAOS_SABOTAGE")


class Loader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader, patch: Callable[[Any], None]) -> None:
        self._loader = loader
        self._patch = patch

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._patch(module)


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name not in PATCHES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        assert spec is not None and spec.loader is not None, f"there is no {name} to sabotage"
        spec.loader = Loader(spec.loader, PATCHES[name])
        return spec


if PATCHES:
    sys.meta_path.insert(0, Finder())
