"""Content of an attempt's folders: files, links that lead to files inside, and what cannot be sent, in words."""

import errno
import hashlib
import io
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from trainyard.contract.calls import GainedFile, GainedFiles
from trainyard.spooling.held_folder import HeldFolder
from workers.attempt.documents import FileStamps, Stamp, read_document, write_document
from workers.attempt.folder import AttemptFolder

MAX_FILES = 10_000
LEFT_OUT = frozenset({"__pycache__", ".git", ".venv", ".trainyard", "trainyard-spool", ".ipynb_checkpoints"})


class FileChanged(OSError):
    """The file is another than it was when the folder was listed."""


class OutputFile(NamedTuple):
    """One file, or a link to one inside the same folder, whose name is ``same_as`` then."""

    name: str
    root: Path  # the folder
    below: str  # its name there
    stamp: Stamp  # size and time: as long as they stay, so does the content
    same_as: str = ""

    @property
    def size(self) -> int:
        return self.stamp[0]

    @property
    def key(self) -> str:
        """Names this version of the file for its upload."""
        return hashlib.sha256(f"{self.name}\0{self.stamp}".encode()).hexdigest()[:40]

    def open(self) -> io.BufferedReader:
        """Open the file that was listed. Raises FileChanged, and OSError where it went or became something else."""
        with HeldFolder.open(self.root) as folder:
            file = folder.open_file(self.below)
        if not self.is_same(file):
            file.close()
            raise FileChanged(f"{self.name} was written to before it was sent")
        return file

    def is_same(self, file: io.BufferedReader) -> bool:
        return stamp_of(os.fstat(file.fileno())) == self.stamp


class FolderContents(NamedTuple):
    entries: list[OutputFile]  # files first, then links
    left_out: dict[str, str]  # name -> why


def stamp_of(facts: os.stat_result) -> Stamp:
    """Return size and time of a plain file, nothing for anything else."""
    return [facts.st_size, facts.st_mtime_ns] if stat.S_ISREG(facts.st_mode) else []


def list_files(root: Path) -> FolderContents:
    """Return what the folder holds; nothing where it is gone. No link is followed out of it."""
    files: list[OutputFile] = []
    links: list[OutputFile] = []
    left_out: dict[str, str] = {}
    with suppress(FileNotFoundError, NotADirectoryError), HeldFolder.open(root) as folder:
        for name, facts in folder.walk():
            if len(files) + len(links) > MAX_FILES:
                break
            if stamp := stamp_of(facts):
                files.append(OutputFile(name, root, name, stamp))
            elif stat.S_ISLNK(facts.st_mode):
                links += _of_link(folder, root, name, left_out)
            else:
                left_out[name] = "it is no file"
    entries = [*sorted(files), *sorted(links)]
    if len(entries) > MAX_FILES:  # a link to a folder stands for many
        left_out[entries[MAX_FILES].name] = f"there are more than {MAX_FILES:,} files"
    return FolderContents(entries[:MAX_FILES], left_out)


def _of_link(folder: HeldFolder, root: Path, name: str, left_out: dict[str, str]) -> list[OutputFile]:
    try:
        target = folder.real_name(name, root)
        facts = folder.stat(target)
    except FileNotFoundError:
        left_out[name] = "it is a link to nothing"
        return []
    except OSError as error:
        is_out = error.errno == errno.EXDEV
        left_out[name] = "it is a link that leads out of the folder" if is_out else error.strerror or str(error)
        return []
    if stamp := stamp_of(facts):
        return [OutputFile(name, root, target, stamp, target)]
    elif not stat.S_ISDIR(facts.st_mode):
        left_out[name] = "it is a link to nothing"
    elif f"{name}/".startswith(f"{target}/"):
        left_out[name] = "it is a link to a folder that holds it"
    else:
        return [
            OutputFile(f"{name}{below.removeprefix(target)}", root, below, stamp, below)
            for below, found in folder.walk(below=target)
            if (stamp := stamp_of(found))
        ]
    return []


MAX_NAMED = 300
PREFIX = "working-folder"


def record_code(folder: AttemptFolder) -> None:
    """Remember what the working folder holds before the script is started."""
    with HeldFolder.open(folder.code) as code:
        write_document(folder.path / "code.json", {name: stamp_of(facts) for name, facts in code.walk()})


def gained(folder: AttemptFolder) -> list[OutputFile]:
    """Return the files that are new, or another than before. Links are not followed, and not among them."""
    before = read_document(folder.path / "code.json", FileStamps)
    if before is None:  # nothing was ever laid out here
        return []
    found = []
    with suppress(FileNotFoundError, NotADirectoryError), HeldFolder.open(folder.code) as code:
        found = [(name, stamp_of(facts)) for name, facts in code.walk(without=LEFT_OUT)]
    return [OutputFile(name, folder.code, name, stamp) for name, stamp in found if stamp and stamp != before.get(name)]


def gained_files(entries: list[OutputFile]) -> GainedFiles:
    named = [GainedFile(one.name[:300], one.size) for one in entries[:MAX_NAMED]]
    return GainedFiles(len(entries), sum(one.size for one in entries), named)


def take_over(before: AttemptFolder, after: AttemptFolder) -> int:
    """Move what the older attempt has gained into the newer one's working folder, and return how many files that were.
    Both lie on one disk, and nothing of the older one runs any more."""
    entries = gained(before)
    if entries:
        with HeldFolder.open(before.code) as old, HeldFolder.open(after.code) as new:
            _merge(old, new, read_document(before.path / "code.json", FileStamps) or {}, "")
        before.taken_mark.touch()
    return len(entries)


def _merge(old: HeldFolder, new: HeldFolder, known: FileStamps, above: str) -> None:
    with os.scandir(old.descriptor) as entries:
        here = sorted(one.name for one in entries)
    for one in here:
        if one in LEFT_OUT:
            continue
        name, facts, there = f"{above}{one}", old.stat(one), _facts(new, one)
        is_folder = stat.S_ISDIR(facts.st_mode)
        if there is None:
            old.move(one, new)
        elif is_folder and stat.S_ISDIR(there.st_mode):
            with old.folder(one) as inner, new.folder(one) as target:
                _merge(inner, target, known, f"{name}/")
        elif not is_folder and not stat.S_ISDIR(there.st_mode) and stamp_of(facts) not in ([], known.get(name)):
            old.move(one, new)


def _facts(folder: HeldFolder, name: str) -> os.stat_result | None:
    with suppress(FileNotFoundError):
        return folder.stat(name)
    return None
