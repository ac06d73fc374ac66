"""The engine ``slurm``, and what keeps a cluster of it from training."""

import os
import secrets
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from runs.engines.allocating import AllocatingEngine
from runs.engines.findings import Finding, Probe, not_run, probe_answers
from runs.engines.machine_system import MachineRequest, Origin, SystemJob, origin_of, user_variables
from runs.engines.openssh.client import OpenSsh
from runs.engines.openssh.identity import identity_of
from runs.engines.refusals import Refusal, SystemAway, SystemRefused, as_sentence, asked, needed, not_taken
from runs.engines.slurm.jobs import parse_accounts, parse_jobs
from runs.engines.slurm.script import script_of, submission
from runs.engines.slurm.settings import SlurmSettings
from runs.engines.slurm.template import BadField, has_fields
from runs.models import Cluster

LIMIT_S = 10.0  # of one program here
LOGIN_LIMIT_S = 20.0  # of one on a login node, with the connection
PATH = "/usr/local/bin:/usr/bin:/bin"
LOGIN_PATH = "/opt/slurm/bin:/usr/local/slurm/bin:/usr/local/bin:/usr/bin:/bin"
MAX_QUOTED = 300
PREFIXES = ("error: ", "slurm_load_jobs error: ", "fatal: ")
NOT_FOUND = 127  # what a shell answers
# Errors of sbatch after which trying again later may help; any other it would report again.
PASSING = (
    "contact slurm controller", "timed out", "temporarily", "zero bytes", "connection refused", "connection reset",
    "authentication", "munge", "communication", "rate limit", "maxjobcount",
)  # fmt: skip
# The setting that is likely to be wrong, by what sbatch says.
ADVICE = (
    ("account", "account"), ("partition", "partition name"), ("partition", "invalid partition"), ("qos", "qos"),
    ("time_limit", "time limit"), ("gres", "gres"), ("memory", "memory"),
)  # fmt: skip
OVER_ALREADY = ("invalid job id", "already completing", "already finished", "already or is completing")


# Running Slurm's own programs, here or on a login node: argument lists, a time limit, and an environment that holds
# nothing of the server's.


@dataclass(frozen=True)
class Programs:
    """``conf``: slurm.conf's path where it is not Slurm's default. ``login``: the machine to run them on; None: this
    one."""

    conf: str = ""
    login: OpenSsh | None = None

    def run(self, words: Sequence[str], *, text: str = "", limit_s: float | None = None) -> str:
        """Run the program and return its output. Raises SystemAway where it cannot run or does not answer, and Refusal
        with what it wrote where it ends with an error."""
        if self.login is None:
            return self._run_here(words, text, limit_s or LIMIT_S)
        done = self.login.run([*_clean_environment(self.conf), *words], text, limit_s=limit_s or LOGIN_LIMIT_S)
        if done.code == NOT_FOUND:
            raise SystemAway(f"Slurm cannot be asked: the program {words[0]} is not on {self.login.target.label}.")
        return _output(words, done.code, done.output, done.errors)

    def _run_here(self, words: Sequence[str], text: str, limit_s: float) -> str:
        try:
            done = subprocess.run(
                list(words),
                input=text,
                env=environment(self.conf or os.environ.get("SLURM_CONF", "")),
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
    made = {"PATH": f"{os.environ.get('PATH', '')}:{PATH}".lstrip(":"), "LC_ALL": "C.UTF-8", **user_variables()}
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
        raise Refusal(words_of(errors or output) or f"{words[0]} ended with exit code {code}")
    return output


def _clean_environment(conf: str) -> list[str]:
    """Return the words that keep a login's other variables from the job; the shell there fills in these. None of our
    own words is read by that shell."""
    keep = 'exec env -i HOME="$HOME" USER="$USER" LOGNAME="$USER" LC_ALL=C.UTF-8 PATH="$PATH:$0" "$@"'
    return ["/bin/sh", "-c", keep, LOGIN_PATH, *([f"SLURM_CONF={conf}"] if conf else [])]


class SlurmEngine(AllocatingEngine):
    label = "Slurm"
    about = "Each run is a job of its queue; the machines come with it and leave with it."
    settings_type = SlurmSettings
    access = ("login node", "Enter the private key, or the path of its file.")

    def system(self, cluster: Cluster) -> "SlurmSystem":
        settings = SlurmSettings.of(cluster.settings)
        target = settings.login
        login = None if target is None else OpenSsh(target, identity_of(cluster, settings.ssh_key_file))
        return SlurmSystem(settings, origin_of(cluster), Programs(settings.slurm_conf, login))


class SlurmSystem:
    def __init__(self, settings: SlurmSettings, origin: Origin, programs: Programs) -> None:
        self._settings = settings
        self._cluster, self._mark, self._server = origin.cluster, origin.mark, origin.server
        self._programs = programs

    def steps(self, probe: Probe) -> Iterator[Finding]:
        settings, programs = self._settings, self._programs
        with needed("programs", "Install Slurm's programs on the server and its slurm.conf."):
            versions = {programs.run([name, "--version"]).strip() for name in ("sbatch", "squeue", "scancel")}
        yield Finding("programs", True, f"{', '.join(sorted(versions))}.")
        advice = "Is slurmctld running, does slurm.conf name it, and is munge running with the cluster's key?"
        with needed("controller", advice):
            number = len(parse_jobs(programs.run(["squeue", "--me", "--json"]), ""))
        yield Finding("controller", True, f"slurmctld answers and takes our credentials ({number} jobs in its queue).")
        partition, num_usable = _partition(settings, programs)
        yield partition
        yield _accounts(programs)
        if partition.is_fine:
            yield from _probe(settings, programs, min(2, settings.machines, num_usable), probe)

    def jobs(self) -> list[SystemJob]:
        words = ("squeue", "--me", "--states=all", "--json")
        problem = f"Slurm on cluster {self._cluster} does not answer"
        return parse_jobs(asked(lambda: self._programs.run(words), problem), self._mark)

    def find(self, job: str) -> SystemJob | None:
        words = ("sacct", "--jobs", job, "-X", "--noheader", "--parsable2", "--format=State,ExitCode,NodeList")
        with suppress(Refusal, SystemAway):  # most small clusters keep no accounts
            return parse_accounts(self._programs.run(words), job)
        return None

    def submit(self, request: MachineRequest) -> str:
        try:
            words = submission(self._settings, request, self._mark, self._cluster)
        except BadField as error:
            advice = f"Change the name, or the setting where cluster {self._cluster} is edited."
            raise SystemRefused(f"Slurm was not asked. {error} {advice} Then restart the run.") from error
        try:
            text = self._programs.run(["sbatch", *words], text=script_of(self._settings, request, self._server))
        except Refusal as error:
            said = str(error).replace("Batch job submission failed: ", "")
            is_passing = any(word in said.lower() for word in PASSING)
            advice = self._advice(said)
            raise not_taken("Slurm", self._cluster, Refusal(said), is_passing=is_passing, advice=advice) from error
        return text.strip().partition(";")[0]

    def cancel(self, job: str) -> None:
        try:
            self._programs.run(["scancel", job])
        except Refusal as error:
            if not any(words in str(error).lower() for words in OVER_ALREADY):
                raise SystemAway(f"Slurm on cluster {self._cluster} did not cancel job {job}: {error}.") from error

    def _advice(self, sentence: str) -> str:
        for name, words in ADVICE:
            value = getattr(self._settings, name)
            if words in sentence.lower() and value:
                return f"Its {name} is {value!r}: change that where cluster {self._cluster} is edited."
        return ""


# Step by step, whether a Slurm cluster can run what is launched on it. A step that needs an earlier one is left out
# where that failed.

PROBE_LIMIT_S = 60.0


def _partition(settings: SlurmSettings, programs: Programs) -> tuple[Finding, int]:
    """Return what is found, and how many machines are in service."""
    words = ["sinfo", "--noheader", "--format=%P|%a|%D|%l|%t"]
    chosen = "" if has_fields(settings.partition) else settings.partition
    if chosen:
        words.append(f"--partition={chosen}")
    name = f"partition {chosen}" if chosen else "the default partition"
    advice = "Change the partition where the cluster is edited."
    try:
        lines = [line.split("|") for line in programs.run(words).splitlines() if line.count("|") == 4]
    except (SystemAway, Refusal) as error:
        return Finding("partition", False, as_sentence(error), advice), 0
    if not chosen:
        lines = [line for line in lines if line[0].endswith("*")]
    if not lines:
        return Finding("partition", False, f"Slurm has no {name}.", advice), 0
    usable = sum(int(line[2]) for line in lines if line[4].rstrip("*$~#") in ("idle", "mix", "alloc", "comp"))
    _, state, _, limit, _ = lines[0]
    sentence = f"{name[0].upper()}{name[1:]} is {state} with {usable} machines in service, time limit {limit}."
    is_fine = state == "up" and usable > 0
    advice = "" if is_fine else "Have Slurm's administrator look at `sinfo -R`."
    return Finding("partition", is_fine, f"{sentence}{_out_of_service(programs)}", advice), usable


def _out_of_service(programs: Programs) -> str:
    """Return the machines that Slurm does not use, with its reasons, as a sentence."""
    with suppress(SystemAway, Refusal):
        lines = programs.run(["sinfo", "--noheader", "--list-reasons", "--format=%N: %E"]).splitlines()
        return f" Out of service: {'; '.join(line.strip() for line in lines[:4])}." if lines else ""
    return ""


def _accounts(programs: Programs) -> Finding:
    try:
        programs.run(["sacct", "--noheader", "-X", "--format=JobID"])
    except (SystemAway, Refusal) as error:
        words = f"Slurm keeps no accounts ({error}): the end of a job is known for a few minutes only (MinJobAge)."
        return Finding("accounts", None, words)
    return Finding("accounts", True, "sacct answers: the end of a job is known for long.")


def _probe(settings: SlurmSettings, programs: Programs, number: int, probe: Probe) -> Iterator[Finding]:
    """Run a job that lasts a second on ``number`` machines, and let each try what a node does."""
    name = f"trainyard-doctor-{secrets.token_hex(4)}"
    words = ["srun", f"--job-name={name}", f"--nodes={number}", f"--ntasks={number}", "--ntasks-per-node=1", "--time=1"]
    words += ["--chdir=/", "--kill-on-bad-exit=1", "--quiet"]
    given = [f"{one}={value}" for one in ("partition", "account", "qos") if (value := getattr(settings, one))]
    words += [f"--{option}" for option in [*given, *settings.options] if not has_fields(option)]  # a run fills them in
    words += probe.words(settings.interpreter, settings.folder)
    try:
        text = programs.run(words, limit_s=PROBE_LIMIT_S)
    except (SystemAway, Refusal) as error:
        with suppress(SystemAway, Refusal):  # it ends by its time limit of a minute
            programs.run(["scancel", "--me", f"--name={name}"])
        rest = f"Else try the same by hand: srun --nodes={number} {settings.interpreter} --version"
        yield not_run(number, error, f"Where the queue is full, try again later. {rest}")
        return
    yield from probe.trial(probe_answers(text), number, settings.folder)
