"""Step by step, whether a Slurm cluster can run what is launched on it. A step that needs an earlier one is left out
where that failed."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

from runs.engines.findings import Finding, Probe, not_run, probe_answers
from runs.engines.machine_system import SystemAway
from runs.engines.slurm.jobs import parse_jobs
from runs.engines.slurm.programs import Failed, Programs
from runs.engines.slurm.settings import SlurmSettings
from runs.engines.slurm.template import has_fields

PROBE_LIMIT_S = 60.0


def examine(settings: SlurmSettings, programs: Programs, probe: Probe) -> Iterator[Finding]:
    """Yield what is found, one step after the other."""
    version = _version(programs)
    yield version
    if not version.is_fine:
        return
    answers = _answers(programs)
    yield answers
    if not answers.is_fine:
        return
    partition, num_usable = _partition(settings, programs)
    yield partition
    yield _accounts(programs)
    if partition.is_fine:
        yield from _probe(settings, programs, min(2, settings.machines, num_usable), probe)


def _version(programs: Programs) -> Finding:
    try:
        versions = {programs.run([name, "--version"]).strip() for name in ("sbatch", "squeue", "scancel")}
    except (SystemAway, Failed) as error:
        return Finding(
            "programs",
            False,
            f"{str(error).rstrip('.')}.",
            "Install Slurm's programs on the server and its slurm.conf.",
        )
    return Finding("programs", True, f"{', '.join(sorted(versions))}.")


def _answers(programs: Programs) -> Finding:
    advice = "Is slurmctld running, does slurm.conf name it, and is munge running with the cluster's key?"
    try:
        text = programs.run(["squeue", "--me", "--json"])
        number = len(parse_jobs(text, ""))
    except (SystemAway, Failed) as error:
        return Finding("controller", False, f"{str(error).rstrip('.')}.", advice)
    return Finding("controller", True, f"slurmctld answers and takes our credentials ({number} jobs in its queue).")


def _partition(settings: SlurmSettings, programs: Programs) -> tuple[Finding, int]:
    """Return what is found, and how many machines are in service."""
    words = ["sinfo", "--noheader", "--format=%P|%a|%D|%l|%t"]
    chosen = "" if has_fields(settings.partition) else settings.partition
    if chosen:
        words.append(f"--partition={chosen}")
    name = f"partition {chosen}" if chosen else "the default partition"
    try:
        lines = [line.split("|") for line in programs.run(words).splitlines() if line.count("|") == 4]
    except (SystemAway, Failed) as error:
        return Finding(
            "partition", False, f"{str(error).rstrip('.')}.", "Change the partition where the cluster is edited."
        ), 0
    if not chosen:
        lines = [line for line in lines if line[0].endswith("*")]
    if not lines:
        advice = "Change the partition where the cluster is edited."
        return Finding("partition", False, f"Slurm has no {name}.", advice), 0
    usable = sum(int(line[2]) for line in lines if line[4].rstrip("*$~#") in ("idle", "mix", "alloc", "comp"))
    sentence = (
        f"{name[0].upper()}{name[1:]} is {lines[0][1]} with {usable} machines in service, time limit {lines[0][3]}."
    )
    is_fine = lines[0][1] == "up" and usable > 0
    advice = "" if is_fine else "Have Slurm's administrator look at `sinfo -R`."
    return Finding("partition", is_fine, f"{sentence}{_out_of_service(programs)}", advice), usable


def _out_of_service(programs: Programs) -> str:
    """Return the machines that Slurm does not use, with its reasons, as a sentence."""
    try:
        lines = programs.run(["sinfo", "--noheader", "--list-reasons", "--format=%N: %E"]).splitlines()
    except (SystemAway, Failed):
        return ""
    return f" Out of service: {'; '.join(line.strip() for line in lines[:4])}." if lines else ""


def _accounts(programs: Programs) -> Finding:
    try:
        programs.run(["sacct", "--noheader", "-X", "--format=JobID"])
    except (SystemAway, Failed) as error:
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
    except (SystemAway, Failed) as error:
        _cancel(programs, name)
        advice = (
            "Where the queue is full, try again later. Else try the same by hand: "
            f"srun --nodes={number} {settings.interpreter} --version"
        )
        yield not_run(number, error, advice)
        return
    yield from probe.trial(probe_answers(text), number, settings.folder)


def _cancel(programs: Programs, name: str) -> None:
    try:
        programs.run(["scancel", "--me", f"--name={name}"])
    except (SystemAway, Failed):  # it ends by its time limit of a minute
        return
