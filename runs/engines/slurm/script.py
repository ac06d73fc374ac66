"""The words with which a job is submitted, and the script that it runs. Both are pure."""

import math
import shlex

from runs.engines.machine_system import MachineRequest, node_variables, node_words
from runs.engines.slurm.settings import SlurmSettings
from runs.engines.slurm.template import filled, values_of

# Programs ignore it unless they wait for it: Slurm sends it to every process of the job, ranks too.
NOTICE_SIGNAL = "URG"
NAME = "trainyard"  # the first word of our jobs' names


def comment_of(mark: str, attempt: str) -> str:
    """Return the comment by which this server knows its jobs again. ``mark`` is that of our cluster."""
    return f"{NAME}:{mark}:{attempt}"


def attempt_in(comment: str, mark: str) -> str:
    """Return the attempt that a comment names; empty for a job of others."""
    words = comment.split(":")
    return words[2] if len(words) == 3 and words[:2] == [NAME, mark] else ""


def submission(settings: SlurmSettings, request: MachineRequest, mark: str, cluster: str) -> list[str]:
    """Return the words behind ``sbatch``. None of them is secret: every user of the machine may see them. Raises
    BadField where a field of the settings cannot be filled in for this run."""
    values = values_of(request, cluster)
    words = [
        "--parsable",
        f"--job-name={NAME}-{request.attempt}",
        f"--comment={comment_of(mark, request.attempt)}",
        f"--nodes={request.num_machines}",
        f"--ntasks={request.num_machines}",
        "--ntasks-per-node=1",
        f"--cpus-per-task={request.slots * settings.cpus_per_slot}",
        "--no-requeue",  # a new attempt is a new job
        f"--chdir={settings.folder}",
        f"--output={settings.folder}/trainyard-{request.attempt}.out",  # what the programs print, on its machines
    ]
    if settings.gres:
        words.append(f"--gres={settings.gres}:{request.slots}")
    if settings.memory:
        words.append(f"--mem={settings.memory}")
    chosen = ((name, getattr(settings, name)) for name in ("partition", "account", "qos"))
    words += [f"--{name}={filled(value, values)}" for name, value in chosen if value]
    if settings.time_limit_s is not None:
        words.append(f"--time={math.ceil(settings.time_limit_s / 60)}")
        if settings.notice_s:
            words.append(f"--signal={NOTICE_SIGNAL}@{settings.notice_s}")
    words += [f"--{filled(option, values)}" for option in settings.options]
    return words


def script_of(settings: SlurmSettings, request: MachineRequest, server: str) -> str:
    """Return the job's script. It goes by the standard input and holds the tokens: Slurm shows it to the job's owner
    and to operators alone."""
    node = node_words(settings.interpreter, request, server=server, home=f"{settings.folder}/machines")
    start = ["srun", "--export=ALL", "--kill-on-bad-exit=1", "--wait=0", *node]
    cores = request.slots * settings.cpus_per_slot
    variables = node_variables(request.tokens, checkpoints=f"{settings.folder}/checkpoints", cores=cores)
    lines = [
        "#!/bin/bash -l" if settings.modules else "#!/bin/sh",  # `module` is a function of login shells
        "umask 077",
        *(f"module load {shlex.quote(name)} || exit 1" for name in settings.modules),  # before there is a token
        *(f"export {name}={shlex.quote(value)}" for name, value in variables.items()),
        f"exec {shlex.join(start)}",
    ]
    return "\n".join(lines) + "\n"
