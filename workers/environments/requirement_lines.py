"""Requirements files as text: which lines belong together, which files they name, what they pin."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from trainyard.spec.sections.environment import file_of

_LOCAL = re.compile(r"(-e|--editable)[ =]|\.{0,2}/|file:|\.$")
_NAMED_LOCAL = re.compile(r"@ *(file:|\.{0,2}/)")
_COMMENT = re.compile(r"(^|\s)#.*$")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")


class RequirementLines(NamedTuple):
    """``options`` stand for the whole file; each of ``packages`` is one requirement, with its hashes below it."""

    options: list[str]
    packages: list[str]

    @property
    def has_hashes(self) -> bool:
        return any("--hash" in one for one in self.packages)

    @property
    def has_local(self) -> bool:
        return any(map(is_local, self.packages))

    @property
    def files(self) -> list[str]:
        """Files that belong to it (``-r``, ``-c``)."""
        return [file for one in self.options if (file := file_of(one)) is not None]


def parse(text: str) -> RequirementLines:
    found = RequirementLines([], [])
    for line in _joined(text):
        is_package = not line.startswith("-") or re.match(r"(-e|--editable)[ =]", line) is not None
        (found.packages if is_package else found.options).append(line)
    return found


def is_local(requirement: str) -> bool:
    """Return whether it names a folder or a file of its own, which another file of the same text need not have."""
    return _LOCAL.match(requirement) is not None or _NAMED_LOCAL.search(requirement) is not None


def name_of(requirement: str) -> str:
    """Return the package's name as indexes have it; empty where none is named."""
    found = _NAME.match(requirement)
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found and not is_local(requirement) else ""


def parts(packages: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(packages), size):
        yield packages[start : start + size]


def without_credentials(line: str) -> str:
    """Return a line of a log without the user and password of a URL."""
    return _CREDENTIALS.sub("", line)


def _joined(text: str) -> Iterator[str]:
    """Yield the lines without comments, those that a backslash continues as one."""
    held = ""
    for line in text.splitlines():
        line = _COMMENT.sub("", line).rstrip()
        if line.endswith("\\"):
            held += line[:-1].strip() + " "
            continue
        whole = (held + line.lstrip() if held else line).strip()
        held = ""
        if whole:
            yield whole
    if held.strip():
        yield held.strip()
