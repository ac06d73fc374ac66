"""Files that a script has left in its working folder: those beside the code, and files of the code that were changed.

They are neither sent nor deleted unasked: they are listed, and wait for a person's decision. The next attempt of the
run takes them over where it is placed on this node again, as if the script had gone on in its folder.
"""

import os
import stat
from contextlib import suppress

from trainyard.contract.calls.output_files import GainedFile, GainedFiles
from trainyard.spooling.held_folder import HeldFolder
from workers.attempt.documents import FileStamps, read_document, write_document
from workers.attempt.folder import AttemptFolder
from workers.node.output.files import LEFT_OUT, OutputFile, stamp_of

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
    """Return what is reported to the server of them."""
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
