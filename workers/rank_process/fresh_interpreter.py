"""Gives a forked rank what a fresh interpreter would have, so that a script finds no difference to a cold rank."""

import contextlib
import gc
import importlib.machinery
import io
import multiprocessing
import os
import sys
import tempfile
import time
import types
from collections.abc import Iterator
from pathlib import Path
from traceback import format_exception

import workers
from workers.rank_process.cold_start import python_path

ROOT = Path(workers.__file__).resolve().parents[1]

# Objects of the supervisor's life whose descriptors are closed: were one collected, it would close a number that by
# then belongs to the user.
_kept: list[object] = []


def renew_streams() -> None:
    """Make the standard streams of what descriptors 0 to 2 are now, as ``PYTHONUNBUFFERED=1`` has them. The encodings
    are those that Python chose when the warm process began."""
    _kept.extend((sys.stdin, sys.stdout, sys.stderr))
    first, errors = sys.__stdout__, "backslashreplace"
    encoding, strict = (first.encoding, first.errors or "strict") if first is not None else ("utf-8", "strict")
    raw = io.FileIO(0, closefd=False)
    raw.name = "<stdin>"
    sys.stdin = io.TextIOWrapper(io.BufferedReader(raw), encoding=encoding, errors=strict, write_through=True)
    sys.stdin.mode = "r"  # type: ignore[misc]
    sys.stdout, sys.stderr = _writer(1, encoding, strict), _writer(2, encoding, errors)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]


def _writer(descriptor: int, encoding: str, errors: str) -> io.TextIOWrapper:
    raw = io.FileIO(descriptor, "w", closefd=False)
    raw.name = f"<{'stdout' if descriptor == 1 else 'stderr'}>"
    stream = io.TextIOWrapper(raw, encoding=encoding, errors=errors, write_through=True)
    stream.mode = "w"  # type: ignore[misc]
    return stream


def reset_imported_state(folder: Path) -> None:
    """Reset what modules computed when the warm process imported them."""
    tempfile.tempdir = None  # TMPDIR is the rank's now
    time.tzset()
    multiprocessing.process.ORIGINAL_DIR = str(folder)  # type: ignore[attr-defined]
    multiprocessing.current_process().authkey = os.urandom(32)


def set_path(first: Path, environment: dict[str, str], folder: Path, sdk: Path) -> None:
    """Set sys.path to what a fresh interpreter has: ``first``, PYTHONPATH, Python's own. Our code is not on it
    but for ``trainyard``, and no name of ours stands in the way of a user's module."""
    own = [str(first), *map(str, python_path(environment, folder))]
    # The first entry is the zygote's own folder (`python -m`).
    others = [entry for entry in sys.path[1:] if entry and (_is_installed() or Path(entry).resolve() != ROOT)]
    sys.path[:] = list(dict.fromkeys([*own, *others, *([] if _is_installed() else [str(sdk)])]))
    sys.path_importer_cache.clear()
    for name in [name for name in sys.modules if name == "workers" or name.startswith("workers.")]:
        _kept.append(sys.modules.pop(name))


def _is_installed() -> bool:
    """Return whether we lie among the packages of the interpreter, and not in a folder of our own."""
    return not (ROOT / "pyproject.toml").exists()


def new_main(script: Path, arguments: list[str]) -> types.ModuleType:
    """Make the ``__main__`` of ``python script``."""
    main = _replace_main(importlib.machinery.SourceFileLoader("__main__", str(script)))
    main.__dict__.update(__file__=str(script), __cached__=None)
    sys.argv = [str(script), *arguments]
    sys.orig_argv = [sys.executable, *sys.argv]
    return main


def new_main_of_module(name: str, arguments: list[str]) -> None:
    """Make the ``__main__`` of ``python -m name`` as runpy finds it, which fills in the rest."""
    _replace_main(importlib.machinery.BuiltinImporter)
    sys.argv = ["-m", *arguments]
    sys.orig_argv = [sys.executable, "-m", name, *arguments]


def _replace_main(loader: object) -> types.ModuleType:
    main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=sys.modules["builtins"], __loader__=loader, __annotations__={})
    _kept.append(sys.modules["__main__"])
    sys.modules["__main__"] = main
    return main


def print_error(error: BaseException, ours: tuple[str, ...]) -> str:
    """Print the traceback as Python would, without the frames of files that begin with ``ours``, and return it."""
    for one in _chain(error):
        one.__traceback__ = _without(ours, one.__traceback__)
    text = "".join(format_exception(type(error), error, error.__traceback__))
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except BaseException:
        sys.stderr.write(text)
    return text


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and those that led to it."""
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        one = left.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        left += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]


def _without(ours: tuple[str, ...], trace: types.TracebackType | None) -> types.TracebackType | None:
    frames = []
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    kept = [one for one in frames if not one.tb_frame.f_code.co_filename.startswith(ours)]
    for one, following in zip(kept, [*kept[1:], None], strict=False):
        one.tb_next = following
    return kept[0] if kept else None


def flush_files() -> None:
    """Write what files that the script left open still hold. An interpreter that ends does so by closing them."""
    for one in gc.get_objects():
        if issubclass(type(one), (io.BufferedWriter, io.BufferedRandom, io.TextIOWrapper)):
            with contextlib.suppress(OSError, ValueError):
                one.flush()
