"""Files of a folder that are code, and links to folders inside. Ignore files and links that lead out leave out."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from pathspec import GitIgnoreSpec

from trainyard.formats.words import listed

LEFT_OUT = frozenset({".git", "__pycache__", ".venv", ".trainyard", "trainyard-spool"})
IGNORE_FILES = (".gitignore", ".trainyardignore")  # the later one wins
SHARE_OF_FOLDER = 0.8  # of what a folder holds: an entry that has so much of it is named in its place
MOST_NAMED = 5


class BundleError(ValueError):
    """The folder cannot be packed, or the bytes are no bundle."""


class CodeFolder(NamedTuple):
    """Paths are relative to the folder. ``links`` are their targets, as they are written, by path."""

    files: dict[str, Path]
    links: dict[str, str]
    ignored: list[str]  # by an ignore file
    lost: list[str]  # links that lead out of the folder, nowhere, or to what is left out

    def remarks(self) -> list[str]:
        """Return as sentences what is left out."""
        found = []
        if self.ignored:
            found.append(f"Left out by {' and '.join(IGNORE_FILES)}: {listed(self.ignored, at_most=MOST_NAMED)}.")
        if self.lost:
            names = listed(self.lost, at_most=MOST_NAMED)
            found.append(f"Left out, as links that lead to nothing in the folder that is sent: {names}.")
        return found


class Ignoring:
    """The rules of one folder and of those above it. Rules of ``.trainyardignore`` go before those of Git, so that it
    can bring back (``!weights.pt``) what Git ignores; among those of one name the innermost folder's do."""

    def __init__(self, rules: Mapping[str, list[tuple[Path, GitIgnoreSpec]]] | None = None) -> None:
        self._rules = rules or {name: [] for name in IGNORE_FILES}

    def within(self, folder: Path) -> "Ignoring":
        """Return the rules that hold in a folder one below. Raises BundleError."""
        found = {name: [*self._rules[name]] for name in IGNORE_FILES}
        for name in IGNORE_FILES:
            file = folder / name
            if file.is_file():
                try:
                    spec = GitIgnoreSpec.from_lines(file.read_text(errors="replace").splitlines())
                except ValueError as error:
                    raise BundleError(f"{file}: {error}") from None
                found[name].append((folder, spec))
        return Ignoring(found)

    def has(self, path: Path, *, is_folder: bool) -> bool:
        for name in reversed(IGNORE_FILES):
            for base, spec in reversed(self._rules[name]):
                is_ignored = spec.check_file(f"{path.relative_to(base).as_posix()}{'/' if is_folder else ''}").include
                if is_ignored is not None:
                    return is_ignored
        return False


def read(folder: Path) -> CodeFolder:
    """Return what of ``folder``, which is resolved, is code. Raises BundleError for what is neither file nor folder."""
    found = CodeFolder({}, {}, [], [])
    _read(folder, folder, _rules_above(folder), found)
    folders = {"."} | {str(above) for name in found.files for above in PurePosixPath(name).parents}
    for name, target in list(found.links.items()):
        if os.path.normpath(os.path.join(os.path.dirname(name), target)) not in folders:  # noqa: PTH118, PTH120
            del found.links[name]
            found.lost.append(name)
    return found


def _rules_above(folder: Path) -> Ignoring:
    """Return the rules of the folders between a Git working tree's own and this one."""
    above = list(folder.parents)
    top = next((number for number, one in enumerate(above) if (one / ".git").exists()), -1)
    rules = Ignoring()
    if not (folder / ".git").exists():
        for one in reversed(above[: top + 1]):
            rules = rules.within(one)
    return rules


def _read(root: Path, folder: Path, above: Ignoring, found: CodeFolder) -> None:
    rules = above.within(folder)
    for path in sorted(folder.iterdir()):
        if path.name in LEFT_OUT:
            continue
        name, is_link = path.relative_to(root).as_posix(), path.is_symlink()
        is_folder = path.is_dir() and not is_link
        if rules.has(path, is_folder=is_folder):
            found.ignored.append(f"{name}/" if is_folder else name)
        elif is_link and not (path.exists() and (target := path.resolve()).is_relative_to(root)):
            found.lost.append(name)
        elif is_link and path.is_dir():
            found.links[name] = os.path.relpath(target, folder)
        elif is_folder:
            _read(root, path, rules, found)
        elif path.is_file():
            found.files[name] = path
        else:
            raise BundleError(f"{name} is no regular file")


def largest(sizes: Mapping[str, int], most: int = 3) -> Iterator[tuple[str, int]]:
    """Yield the files and folders that hold the most of what these files do, and how much that is."""
    totals: dict[str, int] = {}
    for name, number in sizes.items():
        for one in (name, *(f"{above}/" for above in PurePosixPath(name).parents if str(above) != ".")):
            totals[one] = totals.get(one, 0) + number
    heaviest: dict[str, int] = {}  # what the largest entry of a folder holds
    for one, number in totals.items():
        above = f"{PurePosixPath(one).parent}/"
        heaviest[above] = max(number, heaviest.get(above, 0))
    named: list[str] = []
    for one in sorted(totals, key=lambda name: -totals[name]):
        is_of_another = any(_holds(one, other) or _holds(other, one) for other in named)
        if heaviest.get(one, 0) < SHARE_OF_FOLDER * totals[one] and not is_of_another:
            named.append(one)
            yield one, totals[one]
        if len(named) == most:
            return


def _holds(one: str, other: str) -> bool:
    return one.endswith("/") and other.startswith(one)
