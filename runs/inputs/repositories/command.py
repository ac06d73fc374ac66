"""Git as a program: by a list of words, with an environment made from nothing, and limits of time and size.

It reads no settings of the user or the machine, runs no hook, no filter and no shell of a repository, asks nobody for a
password, and follows no redirect. Nothing is ever checked out.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from runs.inputs.repositories.problems import GitFailed, RepositoryProblem

TIME_LIMIT_S = 90.0  # a request waits for it; REST gives one up after two minutes
MAX_ANSWER_BYTES = 64 * 1024 * 1024
POLL_S = 0.05
# Of the server's own environment: how it reaches the internet.
PASSED = (
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)
SETTINGS = {
    "core.hooksPath": os.devnull, "core.fsmonitor": "false", "core.attributesFile": os.devnull, "credential.helper": "",
    "gc.auto": "0", "maintenance.auto": "false", "http.followRedirects": "false", "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "20", "protocol.version": "2", "fetch.recurseSubmodules": "false",
    "submodule.recurse": "false",
}  # fmt: skip


class CommandLimits(NamedTuple):
    time_s: float = TIME_LIMIT_S
    folder: Path | None = None  # that may not grow…
    num_bytes: int = 0  # …above this


NO_FOLDER = CommandLimits()


def run_git(
    words: Sequence[str],
    *,
    repository: Path | None = None,
    variables: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
    data: bytes = b"",
    limits: CommandLimits = NO_FOLDER,
) -> bytes:
    """Return what ``git words`` prints. Raises GitFailed where it says no, and RepositoryProblem where it takes more
    time or room than it may, or is not there."""
    program = shutil.which("git")
    if program is None:
        raise RepositoryProblem("git", "the server has no git: install it there, or upload the code as a folder")
    place = [f"--git-dir={repository}"] if repository is not None else []
    with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as complaints, tempfile.TemporaryFile() as given:
        given.write(data)
        given.seek(0)
        process = subprocess.Popen(
            [program, *place, *words],
            stdin=given,
            stdout=answer,
            stderr=complaints,
            env=_environment(variables or {}, settings or {}),
            cwd="/",
            start_new_session=True,
            close_fds=True,
        )
        try:
            _wait(process, limits)
        finally:
            _end(process)
        answer.seek(0)
        complaints.seek(0)
        if process.returncode != 0:
            raise GitFailed(complaints.read(100_000).decode(errors="replace"))
        return answer.read(MAX_ANSWER_BYTES)


def _environment(variables: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    found = {
        **{name: os.environ[name] for name in PASSED if name in os.environ},
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "HOME": "/nonexistent",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "false",
        "SSH_ASKPASS": "false",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_ALLOW_PROTOCOL": "",  # of each URL its own
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        **variables,
    }
    all_settings = {**SETTINGS, **settings}
    found["GIT_CONFIG_COUNT"] = str(len(all_settings))
    for number, (name, value) in enumerate(all_settings.items()):
        found |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return found


def _wait(process: subprocess.Popen[bytes], limits: CommandLimits) -> None:
    until, pause = time.monotonic() + limits.time_s, 0.002
    while process.poll() is None:
        if time.monotonic() > until:
            words = f"fetching took more than {limits.time_s:.0f} s: try again, or upload the code as a folder"
            raise RepositoryProblem("git", words)
        if limits.folder is not None and limits.num_bytes and _size(limits.folder) > limits.num_bytes:
            most = f"{limits.num_bytes // 2**20:,} MB that the server fetches (GIT_LIMIT_BYTES)"
            raise RepositoryProblem("git", f"the repository is larger than the {most}: upload the code as a folder")
        time.sleep(pause)
        pause = min(POLL_S, pause * 2)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Leave nothing of it: ssh and helpers are in its session."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _size(folder: Path) -> int:
    total = 0
    for above, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += Path(above, name).lstat().st_size
    return total
