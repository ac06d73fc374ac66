"""The short name of a temporary folder: of an attempt's, which is TMPDIR of its ranks and builds, or an inspection's.

A path of a Unix socket ends at 107 characters. multiprocessing, and with it a DataLoader's workers, puts 32 below
TMPDIR, Ray 60; the folder itself lies 38 below a home of any length. So a link in a folder of all users leads to it:
what is written counts as the attempt's, and goes with it. Others can neither take the link away nor put another in its
place, since those folders are sticky. Nothing of ours follows it.
"""

import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path

PLACES = ("/tmp", "/var/tmp", "/dev/shm")
PREFIX = "ty-"
OURS = ("attempts/*/tmp", "looks/*")
SHARED = stat.S_ISVTX | stat.S_IWOTH | stat.S_IXOTH


def give_name(folder: Path, key: str) -> Path:
    """Return the link to the folder, made where it is not there; the folder itself where this machine has no place for
    one. ``key`` is random: nobody can take the name before."""
    for link in _names(folder, key):
        if _leads_to(link, folder):
            return link
        with suppress(OSError):
            if link.parent.stat().st_mode & SHARED == SHARED:
                link.symlink_to(folder.absolute())  # fails where anything has that name
                return link
    return folder.absolute()


def take_name(folder: Path, key: str) -> None:
    for link in _names(folder, key):
        if _leads_to(link, folder):
            link.unlink(missing_ok=True)


def take_lost_names() -> None:
    """Remove this user's links to folders that are no more: their nodes were killed, and their homes are gone."""
    for link in (one for place in PLACES for one in Path(place).glob(f"{PREFIX}*")):
        with suppress(OSError):
            if _is_ours(link) and any(link.readlink().match(one) for one in OURS) and not link.exists():
                link.unlink()


def _names(folder: Path, key: str) -> list[Path]:
    """Two nodes of one attempt may share a machine."""
    digest = hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()
    return [Path(place, f"{PREFIX}{key}-{digest[:6]}") for place in PLACES]


def _leads_to(link: Path, folder: Path) -> bool:
    with suppress(OSError):
        return _is_ours(link) and link.readlink() == folder.absolute()
    return False


def _is_ours(link: Path) -> bool:
    """Return whether it is a link that this user has made. Raises FileNotFoundError where nothing is there."""
    facts = link.lstat()
    return stat.S_ISLNK(facts.st_mode) and facts.st_uid == os.getuid()
