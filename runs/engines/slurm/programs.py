"""Running Slurm's own programs: argument lists, a time limit, and an environment that holds nothing of the server's."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Sequence

from runs.engines.machine_system import SystemAway

LIMIT_S = 10.0  # of one program
PATH = "/usr/local/bin:/usr/bin:/bin"
MAX_QUOTED = 300
PREFIXES = ("error: ", "slurm_load_jobs error: ", "fatal: ")


class Failed(Exception):
    """A program ended with an error; the message is what it wrote."""


def run(words: Sequence[str], *, conf: str = "", text: str = "", limit_s: float = LIMIT_S) -> str:
    """Run the program and return its output. Raises SystemAway where it cannot run or does not answer, Failed where it
    ends with an error."""
    try:
        done = subprocess.run(
            list(words),
            input=text,
            env=environment(conf),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
            check=False,
            cwd="/",
        )
    except FileNotFoundError as error:
        raise SystemAway(
            f"Slurm cannot be asked: the program {words[0]} is not on this server (Debian has it in slurm-client)."
        ) from error
    except subprocess.TimeoutExpired as error:
        raise SystemAway(f"Slurm did not answer {words[0]} within {limit_s:g} s.") from error
    except OSError as error:
        raise SystemAway(f"Slurm cannot be asked: {words[0]}: {error.strerror or error}.") from error
    if done.returncode != 0:
        raise Failed(words_of(done.stderr or done.stdout) or f"{words[0]} ended with exit code {done.returncode}")
    return done.stdout


def environment(conf: str) -> dict[str, str]:
    """Slurm hands a submitter's environment to the job, so the server's own is kept from it."""
    try:
        user = pwd.getpwuid(os.getuid())
        who = {"USER": user.pw_name, "LOGNAME": user.pw_name, "HOME": user.pw_dir}
    except KeyError:
        who = {"HOME": "/"}
    made = {"PATH": f"{os.environ.get('PATH', '')}:{PATH}".lstrip(":"), "LC_ALL": "C.UTF-8", **who}
    return {**made, "SLURM_CONF": conf} if conf else made


def words_of(output: str) -> str:
    """Return what a program complained of, without its own name before each line, and not endless."""
    lines = []
    for line in output.splitlines():
        name, colon, rest = line.strip().partition(": ")
        text = rest if colon and name.isalnum() and name.islower() else line.strip()
        for prefix in PREFIXES:
            text = text.removeprefix(prefix)
        if text and text not in lines:
            lines.append(text)
    return "; ".join(lines)[:MAX_QUOTED].rstrip(".")
