"""Paths of the server's own files, under TRAINYARD_HOME."""

import fcntl
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from django.conf import settings


def run_folder(run_id: str) -> Path:
    return Path(settings.HOME) / "runs" / run_id


def output_folder(run_id: str) -> Path:
    """Return the folder of what rank 0 left in TRAINYARD_OUTPUT, as its node uploaded it."""
    return run_folder(run_id) / "output"


def bundles_folder() -> Path:
    return Path(settings.HOME) / "bundles"


def bundle_path(sha256: str) -> Path:
    """The packed code, under its digest, as it came. Projects that sent the same share it."""
    return bundles_folder() / sha256[:2] / sha256


def bundles_locked() -> AbstractContextManager[None]:
    """Let nobody else store or remove packed code meanwhile: rows and files of it change together."""
    return folder_locked(bundles_folder())


@contextmanager
def folder_locked(folder: Path) -> Iterator[None]:
    """Make the folder where there is none, and let no other process have its lock meanwhile."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
