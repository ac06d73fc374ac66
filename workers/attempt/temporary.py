"""The short name of an attempt's temporary folder, which is its ranks' TMPDIR.

A path of a Unix socket ends at 107 characters. multiprocessing, and with it a DataLoader's workers, puts 32 below
TMPDIR, Ray 60; the folder itself lies 38 below a home of any length. So a link in a folder of all users leads to it:
what is written counts as the attempt's, and goes with it. Others can neither take the link away nor put another in its
place, since those folders are sticky. Nothing of ours follows it.
"""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path

from workers.attempt.folder import AttemptFolder

PLACES = ("/tmp", "/var/tmp", "/dev/shm")
PREFIX = "ty-"
SHARED = stat.S_ISVTX | stat.S_IWOTH | stat.S_IXOTH


def give_name(folder: AttemptFolder) -> Path:
    """Return the link to the attempt's temporary folder, made where it is not there; the folder itself where this
    machine has no place for one."""
    for link in _names(folder):
        if _leads_to(link, folder):
            return link
        with suppress(OSError):
            if link.parent.stat().st_mode & SHARED == SHARED:
                link.symlink_to(_target(folder))  # fails where anything has that name
                return link
    return folder.temporary


def take_name(folder: AttemptFolder) -> None:
    """Remove the link."""
    for link in _names(folder):
        if _leads_to(link, folder):
            link.unlink(missing_ok=True)


def take_lost_names() -> None:
    """Remove this user's links to attempts that are no more: their nodes were killed, and their homes are gone."""
    for link in (one for place in PLACES for one in Path(place).glob(f"{PREFIX}*")):
        with suppress(OSError):
            if _is_ours(link) and link.readlink().match("attempts/*/tmp") and not link.exists():
                link.unlink()


def _names(folder: AttemptFolder) -> list[Path]:
    """Two nodes of one attempt may share a machine."""
    home = hashlib.sha256(os.fsencode(folder.path.parent.absolute())).hexdigest()
    return [Path(place, f"{PREFIX}{folder.attempt}-{home[:6]}") for place in PLACES]


def _target(folder: AttemptFolder) -> Path:
    return folder.temporary.absolute()


def _leads_to(link: Path, folder: AttemptFolder) -> bool:
    with suppress(OSError):
        return _is_ours(link) and link.readlink() == _target(folder)
    return False


def _is_ours(link: Path) -> bool:
    """Whether it is a link that this user has made. Raises FileNotFoundError where nothing is there."""
    facts = link.lstat()
    return stat.S_ISLNK(facts.st_mode) and facts.st_uid == os.getuid()
