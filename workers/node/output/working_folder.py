"""What a script has left in its working folder: files beside the code, and files of the code that were changed.

They are neither sent nor deleted unasked: they are listed, and wait for a person's decision. The next attempt of the
run takes them over where it is placed on this node again, as if the script had gone on in its folder.
"""

from __future__ import annotations

import stat
from pathlib import Path

from trainyard.contract.calls.output_files import GainedFile, GainedFiles
from workers.attempt.documents import FileStamps, Stamp
from workers.attempt.folder import AttemptFolder
from workers.attempt.json_files import read_document, write_document
from workers.node.output.files import LEFT_OUT, OutputFile, walk

MAX_NAMED = 300
PREFIX = "working-folder"


def record_code(folder: AttemptFolder) -> None:
    """Remember what the working folder holds before the script is started."""
    write_document(folder.path / "code.json", {name: _stamp(path) for name, path in walk(folder.code)})


def gained(folder: AttemptFolder) -> list[OutputFile]:
    """Return the files that are new, or another than before. Links are not followed, and not among them."""
    before = read_document(folder.path / "code.json", FileStamps)
    if before is None:  # nothing was ever laid out here
        return []
    found = []
    for name, path in walk(folder.code, without=LEFT_OUT):
        stamp = _stamp(path)
        if stamp and stamp != before.get(name):
            found.append(OutputFile(name, path, stamp))
    return found


def gained_files(entries: list[OutputFile]) -> GainedFiles:
    """Return what is reported to the server of them."""
    named = [GainedFile(one.name[:300], one.size) for one in entries[:MAX_NAMED]]
    return GainedFiles(len(entries), sum(one.size for one in entries), named)


def take_over(before: AttemptFolder, after: AttemptFolder) -> int:
    """Move what the older attempt has gained into the newer one's working folder, and return how many files that were.
    Both lie on one disk, and nothing of the older one runs any more."""
    entries = gained(before)
    if entries:
        known = read_document(before.path / "code.json", FileStamps) or {}
        _merge(before.code, after.code, known, "")
        before.taken_mark.touch()
    return len(entries)


def _merge(old: Path, new: Path, known: FileStamps, above: str) -> None:
    for path in sorted(old.iterdir()):
        name, target = f"{above}{path.name}", new / path.name
        if path.name in LEFT_OUT:
            continue
        is_folder = path.is_dir() and not path.is_symlink()
        if is_folder and target.is_dir() and not target.is_symlink():
            _merge(path, target, known, f"{name}/")
        elif not (target.exists() or target.is_symlink()):
            path.rename(target)
        elif not is_folder and not target.is_dir() and _stamp(path) not in ([], known.get(name)):
            path.replace(target)


def _stamp(path: Path) -> Stamp:
    """Return size and time of a plain file, nothing for anything else."""
    try:
        facts = path.lstat()
    except OSError:
        return []
    return [facts.st_size, facts.st_mtime_ns] if stat.S_ISREG(facts.st_mode) else []
