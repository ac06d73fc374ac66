"""Modules that the warm process imports once a rank has used them, so that the next rank finds them there.

A rank that ends leaves a mark for each module of LATER_MODULES that it had imported. Only names of that list are ever
imported, whatever a script writes into its folder.
"""

from __future__ import annotations

import gc
import importlib
import os
import traceback
from collections import deque
from pathlib import Path

from workers.attempt.folder import AttemptFolder
from workers.training.startup.warm import LATER_MODULES

LOOK_EVERY_S = 0.5
MAX_FOLDERS = 8  # of the attempts that were forked last


class LaterImports:
    """What the warm process may still import, and the folders in which ranks leave their marks."""

    def __init__(self) -> None:
        self._left = list(LATER_MODULES)
        self._folders: deque[AttemptFolder] = deque(maxlen=MAX_FOLDERS)

    @property
    def pause_s(self) -> float | None:
        """How long to wait for a request before the next look; None where there is nothing to look for."""
        return LOOK_EVERY_S if self._left and self._folders else None

    def add(self, folder: str) -> None:
        self._folders.append(AttemptFolder(Path(folder)))

    def look(self) -> None:
        """Import what a rank has used. An import that fails is not tried again."""
        for name in list(self._left):
            if any(os.path.lexists(folder.imported_path(name)) for folder in self._folders):
                self._left.remove(name)
                import_module(name)


def import_module(name: str) -> None:
    try:
        importlib.import_module(name)
    except Exception:  # whatever the package does: the ranks go on without it
        traceback.print_exc()
    gc.collect()
    gc.freeze()
