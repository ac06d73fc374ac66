"""Folder of a run's checkpoints: the names in it, and the removal of those that are not kept."""

import json
import re
import shutil
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from trainyard.at_rest.keyring import NO_KEYS, Keyring, read_keyring
from trainyard.spooling.plain_files import sync
from workers.training.checkpoints.manifest import MANIFEST, file_context
from workers.training.data.batches.order import SkippedSteps

# Digits are bounded: a name that a person made up is no reason to count with huge numbers.
WHOLE = re.compile(r"step-(\d{1,18})\.fence-(\d{1,18})")
TEMPORARY = re.compile(r"\.step-(\d{1,18})\.fence-(\d{1,18})\.tmp")
DELETED = re.compile(r"\.step-(\d{1,18})\.fence-(\d{1,18})\.deleted")


@dataclass(frozen=True, order=True, slots=True)
class Mark:
    """Name of a checkpoint within its run. They sort by age: a later attempt's is newer, whatever its step."""

    fence: int
    step: int

    @property
    def name(self) -> str:
        return f"step-{self.step}.fence-{self.fence}"

    @property
    def temporary_name(self) -> str:
        return f".{self.name}.tmp"

    @property
    def deleted_name(self) -> str:
        return f".{self.name}.deleted"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A checkpoint to go on from, of this run or of another."""

    run: str
    mark: Mark
    folder: Path
    keyring: Keyring = NO_KEYS  # that opens it, where it is encrypted

    def context(self, name: str) -> str:
        return file_context(self.run, self.mark.fence, self.mark.step, name)


@dataclass(frozen=True, slots=True)
class Store:
    """``folder`` is this run's own, None where nothing is to be kept; ``candidates`` are newest first."""

    run: str = ""
    fence: int = 0
    folder: Path | None = None
    candidates: tuple[Candidate, ...] = ()
    skips: tuple[SkippedSteps, ...] = ()  # in the order in which they were decided
    keyring: Keyring = NO_KEYS

    def skips_after(self, candidate: Candidate | None) -> list[SkippedSteps]:
        """Return the skips that the state of a checkpoint does not know yet; all of them where there is none."""
        if candidate is None or candidate.run != self.run:
            return list(self.skips)
        return [one for one in self.skips if one.fence >= candidate.mark.fence]


def read_store(environment: Mapping[str, str]) -> Store:
    """Return what TRAINYARD_CHECKPOINTS, TRAINYARD_RESTORE, TRAINYARD_SKIP, TRAINYARD_RUN, TRAINYARD_FENCE and
    TRAINYARD_STORAGE_KEYS say. Raises NoKeys."""
    folder = environment.get("TRAINYARD_CHECKPOINTS")
    offered = json.loads(environment.get("TRAINYARD_RESTORE") or "[]")
    skipped = json.loads(environment.get("TRAINYARD_SKIP") or "[]")
    keyring = read_keyring(environment)
    return Store(
        run=environment.get("TRAINYARD_RUN", ""),
        fence=int(environment.get("TRAINYARD_FENCE") or 0),
        folder=Path(folder) if folder else None,
        candidates=tuple(
            Candidate(one["run"], Mark(int(one["fence"]), int(one["step"])), Path(one["folder"]), keyring)
            for one in offered
        ),
        keyring=keyring,
        skips=tuple(SkippedSteps(int(one["fence"]), int(one["first"]), int(one["last"])) for one in skipped),
    )


def find(folder: Path, kind: re.Pattern[str] = WHOLE) -> list[Mark]:
    """Return the marks of the folders of a kind that lie in ``folder``, oldest first."""
    matches: Iterable[re.Match[str] | None] = (kind.fullmatch(path.name) for path in folder.iterdir())
    return sorted(Mark(fence=int(match[2]), step=int(match[1])) for match in matches if match)


# Removal of checkpoints that are not kept, and of what an attempt that ended in mid-save has left behind.


def retire(folder: Path, keep: int, damaged: Set[Mark]) -> list[Mark]:
    """Take out of use what is damaged and all but the newest ``keep``; return their marks. One stays in any case.

    They are renamed first: one that is half removed must not look like one that is damaged.
    """
    # A folder without a manifest is no checkpoint, whoever put it there: it takes no place of one, and stays.
    whole = [mark for mark in find(folder) if mark not in damaged and (folder / mark.name / MANIFEST).is_file()]
    gone = [mark for mark in find(folder) if mark in damaged] + whole[: -max(1, keep)]
    for mark in gone:
        (folder / mark.name).rename(folder / mark.deleted_name)
    if gone:
        sync(folder)
    return gone


def sweep(folder: Path, current: Mark) -> None:
    """Remove what earlier saves have begun and not finished. Those of later fences are not ours to touch, and what
    cannot be removed now is tried again by the next attempt."""
    for mark in find(folder, TEMPORARY):
        if mark < current:
            shutil.rmtree(folder / mark.temporary_name, ignore_errors=True)
