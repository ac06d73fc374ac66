"""Problems with a repository, as the field of ``task.code`` that each is about and a sentence with what to do."""

import re
from typing import Literal

from trainyard.formats.names import visible
from trainyard.formats.words import listed
from trainyard.spec.values.code import RepositoryAddress

Field = Literal["git", "revision", "path", "submodules", "lfs", "patch"]
MAX_WORDS = 300


class RepositoryProblem(Exception):
    """The code cannot be had. The message is a sentence without its full stop."""

    def __init__(self, field: Field, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field


class GitFailed(Exception):
    """A program of Git ended with another code than 0."""

    def __init__(self, stderr: str) -> None:
        self.stderr = stderr
        super().__init__(stderr)


# What Git says, and what it means: the first that fits. ``{said}`` are its last words.
_MEANINGS = (
    (
        r"host key verification failed|host identification has changed",
        "{where} shows another host key than the one that the project's Git key has stored: it was set up anew, or "
        "somebody stands between. Ask its administrator, then delete the Git key and add it again",
    ),
    (
        r"authentication failed|could not read (username|password)|permission denied|terminal prompts disabled"
        r"|error: 40[13]|access denied|invalid credentials|too many authentication failures",
        "{where} {refuses}: add a Git key with the right to read {url} to the project",
    ),
    (r"redirect|error: 30\d", "{where} sends elsewhere for {url}: name the address that it leads to"),
    (
        r"could not resolve|couldn't resolve|connection (refused|timed out|reset|closed)|failed to connect"
        r"|no route to host|network is unreachable|could ?n.t connect|operation timed out|kex_exchange_identification"
        r"|error: 5\d\d|operation too slow",
        "{where} cannot be reached from the server ({said}): try again",
    ),
    (
        r"not found|does not appear to be a git repository|does not exist|no such file|error: 404",
        "there is no repository at {url}, or the project's Git key may not see it",
    ),
    (r"certificate|SSL|TLS", "{where} has a certificate that the server does not trust: {said}"),
    ("", "{url} cannot be fetched: {said}"),
)
_NOT_GIVEN = re.compile(
    r"not our ref|unadvertised object|shallow|upload-pack: not our ref|remote did not send all", re.IGNORECASE
)


def is_not_given(error: GitFailed) -> bool:
    return bool(_NOT_GIVEN.search(error.stderr))


def problem_of(error: GitFailed, url: str, place: RepositoryAddress, *, has_key: bool) -> RepositoryProblem:
    """Return what Git's words mean for a person."""
    sentence = next(words for said, words in _MEANINGS if re.search(said, error.stderr, re.IGNORECASE))
    refuses = "does not take the project's Git key" if has_key else "wants a key, and the project has none for it"
    about = {"where": place.host or url, "url": url, "refuses": refuses, "said": _last_words(error.stderr)}
    return RepositoryProblem("git", sentence.format_map(about))


def no_revision(url: str, revision: str, branches: list[str]) -> RepositoryProblem:
    there = f" Its branches are {listed(branches, at_most=8)}" if branches else " It has no branches"
    words = f"{url} has no branch, tag or commit {visible(revision)}: push it first, or name one that is there."
    return RepositoryProblem("revision", f"{words}{there}")


def _last_words(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith(("fatal:", "error:", "ssh:"))]
    kept = (own or lines or [""])[-1]
    return visible(re.sub(r"^(fatal|error): ", "", kept) or "Git gave no reason")[:MAX_WORDS].rstrip(".")
