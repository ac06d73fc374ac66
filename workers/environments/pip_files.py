"""Sources of packages on this node: pip's own configuration, in the words of each installer.

uv reads none of pip's files. A mirror or a folder of wheels that the node's administrator has set for pip counts for it
all the same. Addresses may hold a password: they travel in the environment of the installer, never on a command line.
"""

import configparser
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import structlog

from trainyard.spec.sections.environment import file_of

log = structlog.get_logger(__name__)

NAMES = (
    *("index-url", "extra-index-url", "find-links", "no-index", "trusted-host", "keyring-provider"),
    *("cert", "client-cert", "proxy", "timeout", "default-timeout", "retries", "pre"),
)
SECTIONS = ("global", "install")  # a later one wins, as in pip
TRUE = ("1", "true", "yes", "on")
LEAST_TIMEOUT_S = 30


def configuration(environment: Mapping[str, str], prefix: Path) -> dict[str, str]:
    """Return pip's settings about indexes, by name. ``prefix`` is the folder of the interpreter's environment."""
    found: dict[str, str] = {}
    for path in _files(environment, prefix):
        found |= _read(path)
    for name in NAMES:
        if value := environment.get(f"PIP_{name.replace('-', '_').upper()}"):
            found[name] = value
    return found


def _files(environment: Mapping[str, str], prefix: Path) -> list[Path]:
    """Return the places of pip's files, the weakest first."""
    own = environment.get("PIP_CONFIG_FILE", "")
    if own == os.devnull:
        return []
    home = Path(environment.get("HOME") or "~").expanduser()
    system = environment.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    return [
        *(Path(folder) / "pip" / "pip.conf" for folder in system.split(os.pathsep) if folder),
        Path("/etc/pip.conf"),
        home / ".pip" / "pip.conf",
        Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf",
        prefix / "pip.conf",
        *([Path(own)] if own else []),
    ]


def _read(path: Path) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, configparser.Error, UnicodeDecodeError) as error:
        log.warning("pip_configuration.unreadable", path=str(path), error=str(error))
        return {}
    found: dict[str, str] = {}
    for section in SECTIONS:
        if parser.has_section(section):
            given = {name.replace("_", "-"): value for name, value in parser.items(section)}
            found |= {name: value for name, value in given.items() if name in NAMES}
    return found


def for_pip(settings: Mapping[str, str]) -> dict[str, str]:
    own = {f"PIP_{name.replace('-', '_').upper()}": " ".join(value.split()) for name, value in settings.items()}
    return {**own, "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def for_uv(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings as variables of uv. As pip does, it looks at all indexes and takes the best version."""
    found = {
        "UV_DEFAULT_INDEX": settings.get("index-url", ""),
        "UV_INDEX": " ".join(settings.get("extra-index-url", "").split()),
        "UV_FIND_LINKS": ",".join(settings.get("find-links", "").split()),
        "UV_INSECURE_HOST": " ".join(settings.get("trusted-host", "").split()),
        "UV_KEYRING_PROVIDER": settings.get("keyring-provider", ""),
        "UV_NO_INDEX": "1" if settings.get("no-index", "").lower() in TRUE else "",
        "SSL_CERT_FILE": settings.get("cert", ""),
        "ALL_PROXY": settings.get("proxy", ""),
        "UV_HTTP_TIMEOUT": _timeout(settings),
    }
    return {**{name: value for name, value in found.items() if value}, "UV_INDEX_STRATEGY": "unsafe-best-match"}


def _timeout(settings: Mapping[str, str]) -> str:
    given = settings.get("timeout") or settings.get("default-timeout") or ""
    try:
        return str(max(LEAST_TIMEOUT_S, int(float(given)))) if given else ""
    except ValueError:
        return ""


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
