"""Files that a script keeps with its run: copied at once, to where the run's files are taken from.

Inside of Trainyard that is ``$TRAINYARD_OUTPUT``; elsewhere a folder beside the spools, which is sent with them.
"""

import glob
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

FOLDER = "files"  # beside the spools
MAX_CODE_FILES, MAX_CODE_BYTES = 1_000, 1_048_576  # of one file
NO_CODE = {"__pycache__", "node_modules", "trainyard-spool", "wandb", "mlruns"}
Policy = Literal["now", "end"]


def chosen(path: str | os.PathLike[str], base: str | os.PathLike[str] | None) -> dict[str, Path]:
    """Return the files that a path or a pattern names, by their paths in the run: from ``base``, else from the present
    folder, else their names alone. Raises ValueError for a base that they do not lie below."""
    text = os.fspath(path)
    names = sorted(glob.glob(text, recursive=True)) if glob.has_magic(text) else [text]  # noqa: PTH207  # also absolute
    found = [Path(name) for name in names]
    files = [file for one in found for file in (sorted(one.rglob("*")) if one.is_dir() else [one]) if file.is_file()]
    above = Path(os.path.abspath(base or "."))  # noqa: PTH100  # Path.absolute() keeps its dots
    named = {}
    for file in files:
        whole = Path(os.path.abspath(file))  # noqa: PTH100
        if base is not None and not whole.is_relative_to(above):
            raise ValueError(f"save: {file} does not lie below base={os.fspath(base)!r}")
        named[whole.relative_to(above).as_posix() if whole.is_relative_to(above) else whole.name] = whole
    return named


def copy(files: dict[str, Path], into: Path) -> list[Path]:
    """Copy each whole or not at all, and return where they are. Raises OSError."""
    copies = []
    for name, file in files.items():
        target = into / name
        if target != file:
            target.parent.mkdir(parents=True, exist_ok=True)
            draft = target.with_name(f".saving-{os.getpid()}-{target.name[:100]}")
            try:
                shutil.copy2(file, draft)
                draft.replace(target)
            finally:
                draft.unlink(missing_ok=True)
        copies.append(target)
    return copies


def code(root: Path) -> dict[str, Path]:
    """Return the files of Python below the folder, by their paths from it; not those of environments and tools."""
    return dict(list(_code(root.absolute()))[:MAX_CODE_FILES])


def _code(root: Path) -> Iterator[tuple[str, Path]]:
    for above, folders, names in os.walk(root):
        folder = Path(above)
        folders[:] = sorted(one for one in folders if one not in NO_CODE and not one.startswith(".")
                            and not (folder / one / "pyvenv.cfg").exists())  # fmt: skip
        for file in (folder / name for name in sorted(names) if name.endswith(".py")):
            if file.stat().st_size <= MAX_CODE_BYTES:
                yield file.relative_to(root).as_posix(), file
