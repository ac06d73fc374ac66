"""Running Slurm's own programs, here or on a login node: argument lists, a time limit, and an environment that holds
nothing of the server's."""

import os
import pwd
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from runs.engines.machine_system import SystemAway
from runs.engines.openssh.client import OpenSsh

LIMIT_S = 10.0  # of one program here
LOGIN_LIMIT_S = 20.0  # of one on a login node, with the connection
PATH = "/usr/local/bin:/usr/bin:/bin"
LOGIN_PATH = "/opt/slurm/bin:/usr/local/slurm/bin:/usr/local/bin:/usr/bin:/bin"
MAX_QUOTED = 300
PREFIXES = ("error: ", "slurm_load_jobs error: ", "fatal: ")
NOT_FOUND = 127  # what a shell answers


class Failed(Exception):
    """A program ended with an error; the message is what it wrote."""


@dataclass(frozen=True)
class Programs:
    """``conf``: slurm.conf's path where it is not Slurm's default. ``login``: the machine to run them on; None: this
    one."""

    conf: str = ""
    login: OpenSsh | None = None

    def run(self, words: Sequence[str], *, text: str = "", limit_s: float | None = None) -> str:
        """Run the program and return its output. Raises SystemAway where it cannot run or does not answer, Failed where
        it ends with an error."""
        if self.login is not None:
            return self._run_there(self.login, words, text, limit_s or LOGIN_LIMIT_S)
        return self._run_here(words, text, limit_s or LIMIT_S)

    def _run_there(self, login: OpenSsh, words: Sequence[str], text: str, limit_s: float) -> str:
        done = login.run([*_clean_environment(self.conf), *words], text, limit_s=limit_s)
        if done.code == NOT_FOUND:
            raise SystemAway(f"Slurm cannot be asked: the program {words[0]} is not on {login.target.label}.")
        return _output(words, done.code, done.output, done.errors)

    def _run_here(self, words: Sequence[str], text: str, limit_s: float) -> str:
        try:
            done = subprocess.run(
                list(words),
                input=text,
                env=environment(self.conf),
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
        return _output(words, done.returncode, done.stdout, done.stderr)


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


def _output(words: Sequence[str], code: int, output: str, errors: str) -> str:
    if code != 0:
        raise Failed(words_of(errors or output) or f"{words[0]} ended with exit code {code}")
    return output


def _clean_environment(conf: str) -> list[str]:
    """Return the words that keep a login's other variables from the job; the shell there fills in these. None of our
    own words is read by that shell."""
    keep = 'exec env -i HOME="$HOME" USER="$USER" LOGNAME="$USER" LC_ALL=C.UTF-8 PATH="$PATH:$0" "$@"'
    return ["/bin/sh", "-c", keep, LOGIN_PATH, *([f"SLURM_CONF={conf}"] if conf else [])]
