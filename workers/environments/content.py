"""Content of an environment: the files of the code that name it, and the digest under which it is kept.

Two runs share an environment where the digests are equal: the same files, the same Python, the same kind of builder.
"""

import errno
import hashlib
import json
import posixpath
import re
import sys
import sysconfig
import tomllib
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from trainyard.contract.base import JsonObject
from trainyard.spec.sections.environment import SECTION, EnvironmentSection, file_of
from trainyard.spooling.held_folder import HeldFolder
from workers.environments.pip_files import is_local, parse

LAYOUT = 1  # of what the builder makes; a change makes every environment anew
MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_FILES = 50
_COPIES = re.compile(r"^\s*(COPY|ADD|RUN\s+--mount)\b", re.IGNORECASE | re.MULTILINE)
SHORT = 16  # digits of a digest: of a folder's name, which stands in the first line of each program in it


class BadEnvironment(ValueError):
    """The environment of the spec cannot be built from this code. The message is one sentence for the user."""


class Content(NamedTuple):
    """``files`` are texts by their path in the code; ``needs_code``: packages that lie in the code are installed."""

    section: EnvironmentSection
    files: dict[str, str]
    needs_code: bool

    def digest(self, *, code: str, builder: str) -> str:
        """``code`` is the digest of the run's code, ``builder`` the name of the program that installs."""
        section = self.section
        known = {
            "layout": LAYOUT,
            "kind": section.kind,
            "requirements": section.requirements,
            "files": self.files,
            "python": section.python or sys.version,
            "interpreter": "" if section.python else sys.base_prefix,
            "platform": sysconfig.get_platform(),
            "builder": builder,
            "inherited": installed() if section.inherit else [],
            "code": code if self.needs_code else "",
        }
        return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:SHORT]


def read_content(section: EnvironmentSection, code: Path) -> Content:
    """Return what the section names, read from the folder of the code. Raises BadEnvironment."""
    reader = _Reader(code)
    if section.kind == "requirements":
        for one in section.requirements:
            if (file := file_of(one)) is not None:
                reader.take_requirements(file, f"{SECTION}.requirements")
            reader.needs_code |= is_local(one)
    elif section.kind == "lock":
        reader.take_lock(section.lock)
    elif section.kind == "pyproject":
        reader.take_pyproject(section.pyproject)
    elif section.kind == "conda":
        reader.take(section.conda, f"{SECTION}.conda")
    elif section.container.file:
        reader.needs_code = _COPIES.search(reader.take(section.container.file, f"{SECTION}.container.file")) is not None
    return Content(section, reader.files, reader.needs_code)


def installed() -> list[str]:
    """Return what this interpreter's environment has, as NAME==VERSION."""
    found = {(one.metadata["Name"] or "").lower(): one.version for one in metadata.distributions()}
    return sorted(f"{name}=={version}" for name, version in found.items() if name)


class _Reader:
    def __init__(self, code: Path) -> None:
        self._code = code
        self.files: dict[str, str] = {}
        self.needs_code = False

    def take(self, name: str, field: str) -> str:
        """Read a file of the code once and return its text."""
        name = PurePosixPath(name).as_posix()
        if name not in self.files:
            if len(self.files) >= MAX_FILES:
                raise BadEnvironment(f"{field}: more than {MAX_FILES} files are named one by the other.")
            self.files[name] = self._read(name, field)
        return self.files[name]

    def take_requirements(self, name: str, field: str) -> None:
        """Read a requirements file and those that it names."""
        if PurePosixPath(name).as_posix() in self.files:
            return
        lines = parse(self.take(name, field))
        self.needs_code |= lines.has_local
        for below in lines.files:
            self.take_requirements(_beside(name, below, field), field)

    def take_lock(self, name: str) -> None:
        field = f"{SECTION}.lock"
        if name.endswith(".txt"):
            self.take_requirements(name, field)
            lines = parse(self.files[PurePosixPath(name).as_posix()])
            loose = [one for one in lines.packages if "==" not in one and "@" not in one and not is_local(one)]
            if loose:
                raise BadEnvironment(
                    f"{field}: {name} pins no version of {loose[0][:80]}: lock it (uv pip compile --generate-hashes), "
                    f"or name it in {SECTION}.requirements, where versions are resolved."
                )
            return
        document = _toml(self.take(name, field), name, field)
        if PurePosixPath(name).name == "uv.lock":
            self.take((PurePosixPath(name).parent / "pyproject.toml").as_posix(), field)
            self.needs_code = any(_lies_in_code(one) for one in document.get("package", []))

    def take_pyproject(self, name: str) -> None:
        field = f"{SECTION}.pyproject"
        project = _toml(self.take(name, field), name, field).get("project")
        if not isinstance(project, dict):
            raise BadEnvironment(f"{field}: {name} has no [project] table, whose dependencies are installed.")
        wanted = project.get("dependencies", [])
        self.needs_code = "dependencies" in project.get("dynamic", []) or any(is_local(str(one)) for one in wanted)

    def _read(self, name: str, field: str) -> str:
        try:
            with HeldFolder.open(self._code) as code, code.open_file(code.real_name(name, self._code)) as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except FileNotFoundError:
            raise BadEnvironment(f"{field}: there is no file {name} in the run's code.") from None
        except OSError as error:
            if error.errno == errno.EXDEV:
                raise BadEnvironment(f"{field}: {name} leads out of the run's code.") from None
            raise BadEnvironment(f"{field}: {name} cannot be read: {error.strerror or error}.") from None
        if len(data) > MAX_FILE_BYTES:
            raise BadEnvironment(f"{field}: {name} has more than {MAX_FILE_BYTES // 2**20} MiB.")
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise BadEnvironment(f"{field}: {name} is no text in UTF-8.") from None


def _beside(name: str, below: str, field: str) -> str:
    """Return the path of a file that another names: it is relative to that one."""
    path = posixpath.normpath(PurePosixPath(name).parent / below)
    if path.startswith(("../", "/")):
        raise BadEnvironment(f"{field}: {name} names {below}, which leads out of the run's code.")
    return path


def _toml(text: str, name: str, field: str) -> JsonObject:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadEnvironment(f"{field}: {name} is no TOML: {error}.") from None


def _lies_in_code(package: object) -> bool:
    """Return whether a package of uv.lock is a folder of the code, other than the project itself, which is not
    installed."""
    source = package.get("source") if isinstance(package, dict) else None
    if not isinstance(source, dict):
        return False
    return any(source.get(kind, ".") != "." for kind in ("editable", "directory", "path"))
