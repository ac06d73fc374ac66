"""What a script has left in its working folder: what is there beside the code, or is not as the code was.

It is nobody's business to send it unasked, and nobody's to delete it: it is listed, and waits for a person's word. The
next attempt of the run takes it over where it is placed on this node again, as if the script had gone on in its folder.
"""

from __future__ import annotations

import stat
from pathlib import Path

from workers.attempt.folder import AttemptFolder, read_json, write_json
from workers.contract import Document
from workers.node.output.files import LEFT_OUT, Entry, walk

MAX_NAMED = 300
PREFIX = "working-folder"


def note_code(folder: AttemptFolder) -> None:
    """Remember what the working folder holds before the script is started."""
    write_json(folder.path / "code.json", {name: _stamp(path) for name, path in walk(folder.code)})


def gained(folder: AttemptFolder) -> list[Entry]:
    """Return the files that are new, or another than before. Links are not followed, and not among them."""
    before = read_json(folder.path / "code.json")
    if before is None:  # nothing was ever laid out here
        return []
    found = []
    for name, path in walk(folder.code, without=LEFT_OUT):
        stamp = _stamp(path)
        if stamp and stamp != before.get(name):
            found.append(Entry(name, path, stamp))
    return found


def document_of(entries: list[Entry]) -> Document:
    """Return what the server is told of them."""
    named = [{"path": one.name[:300], "size_bytes": one.size} for one in entries[:MAX_NAMED]]
    return {"num_files": len(entries), "bytes": sum(one.size for one in entries), "files": named}


def take_over(before: AttemptFolder, after: AttemptFolder) -> int:
    """Move what the older attempt has gained into the newer one's working folder, and return how many files that were.
    Both lie on one disk, and nothing of the older one runs any more."""
    entries = gained(before)
    if entries:
        known = read_json(before.path / "code.json") or {}
        _merge(before.code, after.code, known, "")
        before.taken_mark.touch()
    return len(entries)


def _merge(old: Path, new: Path, known: Document, above: str) -> None:
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


def _stamp(path: Path) -> list[int]:
    """Return size and time of a plain file, nothing for anything else."""
    try:
        facts = path.lstat()
    except OSError:
        return []
    return [facts.st_size, facts.st_mtime_ns] if stat.S_ISREG(facts.st_mode) else []
