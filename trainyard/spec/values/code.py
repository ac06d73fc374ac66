"""Source of a script's code: a folder, a stored bundle, or a commit of a Git repository."""

import re
import unicodedata
from pathlib import PurePosixPath
from typing import Annotated, NamedTuple
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from trainyard.spec.problems import problems_of, show
from trainyard.spec.values.fields import Part

MAX_PATCH_CHARACTERS = 200_000  # it travels in the spec, which has at most 256 KB
SCHEMES = ("https", "http", "ssh", "file")
EXAMPLES = "https://host/team/code.git, ssh://git@host/team/code.git or git@host:team/code.git"

_SHA256 = re.compile(r"[0-9a-f]{64}")
_SCP = re.compile(r"(?:[A-Za-z0-9._-]+@)?[A-Za-z0-9][A-Za-z0-9.-]*:(?!//)[^\s]+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NOT_IN_REVISIONS = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|^[-/.]|[/.]$|\.lock$")


class StoredCode(Part):
    """A bundle that was uploaded before."""

    sha256: str = Field(pattern=_SHA256.pattern)


def _url(value: str) -> str:
    if ".." in re.split(r"[/:]", unquote(value)):  # a key for one folder of a host would be taken to another
        raise ValueError(f"must have no .. in it, not {show(value)}")
    if any(unicodedata.category(char)[0] in "CZ" for char in value):
        raise ValueError(f"must be a URL such as {EXAMPLES}, not {show(value)}")
    if "://" not in value:
        if not _SCP.fullmatch(value):
            raise ValueError(f"must be a URL such as {EXAMPLES}, not {show(value)}")
        return value
    try:
        parts = urlsplit(value)
        user, password, host, _ = parts.username, parts.password, parts.hostname, parts.port
    except ValueError:
        raise ValueError(f"must be a URL such as {EXAMPLES}, not {show(value)}") from None
    if parts.scheme not in SCHEMES:
        raise ValueError(f"must be one of {', '.join(SCHEMES)}, not {show(parts.scheme)} (in {show(value)})")
    if password is not None or (user and parts.scheme in ("http", "https")):
        raise ValueError("must have no user and no password in it: keep a token as a Git key of the project")
    if parts.query or parts.fragment or not parts.path.strip("/"):
        raise ValueError(f"must name a repository, without ? and #, not {show(value)}")
    if parts.scheme != "file" and not _NAME.fullmatch(host or "") and ":" not in (host or ""):
        raise ValueError(f"must name a host, not {show(value)}")
    if user and not _NAME.fullmatch(user):
        raise ValueError(f"must have a plain user, not {show(user)}")
    if parts.scheme == "file" and host:
        raise ValueError(f"must be file:// and an absolute path, not {show(value)}")
    return value


def _revision(value: str) -> str:
    if _NOT_IN_REVISIONS.search(value):
        raise ValueError(f"must be a branch, a tag or a commit, not {show(value)}")
    return value


def _path(value: str) -> str:
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts or "\\" in value:
        raise ValueError(f"must be a folder inside the repository, not {show(value)}")
    return "" if str(path) == "." else str(path)


class GitCode(Part):
    """A commit of a repository. The server fetches it when the run is submitted, and keeps which commit it was."""

    git: Annotated[str, Field(min_length=1, max_length=1_000), AfterValidator(_url)]
    revision: Annotated[str, Field(min_length=1, max_length=250), AfterValidator(_revision)] = "HEAD"
    path: Annotated[str, Field(max_length=500), AfterValidator(_path)] = ""  # of the folder that is the code
    submodules: bool = False
    lfs: bool = False  # files of Git LFS in the place of their pointers
    patch: Annotated[str, Field(max_length=MAX_PATCH_CHARACTERS)] = ""  # over the commit: as git diff --binary writes


class RepositoryAddress(NamedTuple):
    """Place of a repository."""

    scheme: str
    host: str  # empty: a path of the server
    port: int | None
    user: str
    path: str


def place_of(url: str) -> RepositoryAddress:
    """Split a URL that ``GitCode`` accepts."""
    if "://" in url:
        parts = urlsplit(url)
        return RepositoryAddress(parts.scheme, parts.hostname or "", parts.port, parts.username or "", parts.path)
    address, _, path = url.partition(":")
    user, _, host = address.rpartition("@")
    return RepositoryAddress("ssh", host.lower(), None, user, path)


def _code(value: object) -> object:
    """Accept a folder or file (text), which the CLI packs, a stored bundle or a repository; a repository's URL may also
    stand as text, with @ and the revision behind it."""
    if isinstance(value, StoredCode | GitCode):
        return value
    if isinstance(value, str) and is_git_url(value):
        url, _, revision = value.rpartition("@") if "@" in re.split("[/:]", value)[-1] else (value, "", "HEAD")
        value = {"git": url, "revision": revision}
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, dict) and ("git" in value or set(value) == {"sha256"}):
        kind: type[Part] = GitCode if "git" in value else StoredCode
        try:
            return kind.model_validate(value)
        except ValidationError as error:
            found = problems_of(error, {"": list(kind.model_fields)})[0]
            raise ValueError(f"{found.path}: {_words(found.path, found.message, value)}") from None
    raise ValueError(f"must be a folder such as . or a map with git (a URL) or with sha256 alone, not {show(value)}")


def _words(field: str, message: str, value: dict[str, object]) -> str:
    return f"must have 64 digits 0-9 and a-f, not {show(value[field])}" if field == "sha256" else message


def is_git_url(text: str) -> bool:
    """Return whether a text is meant as a repository's URL and not as a folder."""
    return "://" in text or bool(re.match(r"[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:", text))


Code = Annotated[str | StoredCode | GitCode, BeforeValidator(_code)]


def file_in_code(value: str) -> str:
    """Accept a path inside the code's folder. Raises ValueError."""
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts or not path.name or "\\" in value or has_control(value):
        raise ValueError(f"must be a path inside the code's folder, such as requirements.txt, not {show(value)}")
    return value


def has_control(value: str) -> bool:
    return any(unicodedata.category(char) == "Cc" for char in value)


def file_or_nothing(value: str) -> str:
    return file_in_code(value) if value else value


FileInCode = Annotated[str, Field(max_length=500), AfterValidator(file_or_nothing)]
