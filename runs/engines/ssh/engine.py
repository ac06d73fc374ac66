"""The engine ``ssh``."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from runs.causes.allocations import EndKind
from runs.engines.allocating import AllocatingEngine
from runs.engines.findings import Finding, Probe, probe_answers, probe_names
from runs.engines.machine_system import (
    JobEnd,
    JobState,
    MachineRequest,
    Origin,
    SystemJob,
    mark_of,
    node_variables,
    node_words,
    origin_of,
)
from runs.engines.openssh.client import LIMIT_S, OpenSsh
from runs.engines.openssh.identity import identity_of
from runs.engines.refusals import SystemAway
from runs.engines.ssh.settings import Host, SshSettings
from runs.models import Cluster
from trainyard.contract.base import BadDocument, JsonObject, decode, encode
from trainyard.contract.calls import HostAnswer, HostJob, HostJobState, HostQuestion, HostVerb
from trainyard.formats.words import counted

AWAY_S = 10.0  # after which a host that did not answer is tried again
MAX_AT_ONCE = 16
Answers = dict[str, HostAnswer]

_away: dict[tuple[str, str], tuple[float, str]] = {}  # until when, and why, by identity and host
_away_lock = threading.Lock()
EARLY_S = 90.0  # a node that ended with an error so soon has not joined, or did nothing
PROBE_LIMIT_S = 60.0
NO_TOKEN = "-"  # in the place of a token of another machine


# Asking the hosts of an SSH cluster, several at once. A host that did not answer is left alone for a while.


class HostProblem(Exception):
    """The host answers, and cannot do what is asked; the message is a sentence."""


class Hosts:
    """``folder``: where each host keeps the jobs of ``mark``."""

    def __init__(self, hosts: Sequence[Host], identity: Path, interpreter: str, folder: str, mark: str) -> None:
        self.all = list(hosts)
        self._identity, self._interpreter = identity, interpreter
        self._folder, self._mark = folder, mark

    def list(self) -> tuple[Answers, dict[str, str]]:
        """Return what the hosts answer, and why others do not, by their labels."""
        return self.ask(self.all, lambda _: self._question(HostVerb.LIST))

    def start(self, host: Host, job: HostJob, words: Sequence[str], variables: dict[str, str]) -> HostAnswer:
        """Raises SystemAway, HostProblem."""
        question = self._question(HostVerb.START, job)
        question.words, question.variables = [*words], variables
        return self._answer(host, question)

    def end(self, jobs: Mapping[str, HostJob]) -> dict[str, str]:
        """End the jobs, by the labels of their hosts, and return why some could not be asked."""
        asked = [host for host in self.all if host.label in jobs]
        return self.ask(asked, lambda host: self._question(HostVerb.END, jobs[host.label]))[1]

    def ask(self, hosts: Sequence[Host], question: Callable[[Host], HostQuestion]) -> tuple[Answers, dict[str, str]]:
        answers: Answers = {}
        problems: dict[str, str] = {}

        def one(host: Host) -> None:
            try:
                answers[host.label] = self._answer(host, question(host))
            except (SystemAway, HostProblem) as error:
                problems[host.label] = str(error)

        if hosts:
            with ThreadPoolExecutor(max_workers=min(MAX_AT_ONCE, len(hosts)), thread_name_prefix="hosts") as pool:
                list(pool.map(one, hosts))
        return answers, problems

    def run(self, host: Host, words: Sequence[str], text: str = "", *, limit_s: float = LIMIT_S) -> str:
        """Run a program on the host and return its output. Raises SystemAway, HostProblem."""
        key = (str(self._identity), host.label + host.target.host_key)
        with _away_lock:
            until, why = _away.get(key, (0.0, ""))
        if time.monotonic() < until:
            raise SystemAway(why)
        try:
            done = OpenSsh(host.target, self._identity).run(words, text, limit_s=limit_s)
        except SystemAway as error:
            with _away_lock:
                _away[key] = (time.monotonic() + AWAY_S, str(error))
            raise
        if done.code != 0:
            lines = [line.strip() for line in done.errors.splitlines() if line.strip()] or [f"exit code {done.code}"]
            raise HostProblem(f"{host.label}: {words[0]} failed: {lines[-1].rstrip('.')[:300]}.")
        return done.output

    def _answer(self, host: Host, question: HostQuestion) -> HostAnswer:
        text = self.run(host, [self._interpreter, "-P", "-m", "workers.host_jobs"], encode(question))
        lines = text.strip().splitlines()
        try:
            answer = decode(lines[-1] if lines else "", HostAnswer)  # a profile of the shell may print before it
        except BadDocument as error:
            raise HostProblem(f"{host.label}: the answer of {self._interpreter} cannot be read: {error}.") from error
        if answer.problem:
            raise HostProblem(f"{host.label}: {answer.problem}")
        return answer

    def _question(self, verb: HostVerb, job: HostJob | None = None) -> HostQuestion:
        return HostQuestion(verb=verb, folder=self._folder, mark=self._mark, job=job)


class SshEngine(AllocatingEngine):
    label = "SSH"
    about = "It starts nodes on hosts of a list for each run, and ends them with it."
    settings_type = SshSettings
    access = ("key", "Enter the private key, or the path of its file, in its settings.")

    def system(self, cluster: Cluster) -> "SshSystem":
        settings = SshSettings.of(cluster.settings)
        identity, mark = identity_of(cluster, settings.ssh_key_file), mark_of(cluster.pk)
        hosts = Hosts(settings.all_hosts, identity, settings.interpreter, settings.folder, mark)
        return SshSystem(settings, origin_of(cluster), hosts)


# The hosts of an SSH cluster as a system that is asked for machines. What runs stands on the hosts themselves.


@dataclass(frozen=True)
class Parts:
    """One attempt's parts as the hosts list them. ``hosts``: of all parts, also of hosts that do not answer."""

    attempt: str
    hosts: Sequence[str]
    by_host: Mapping[str, HostJob]


class SshSystem:
    def __init__(self, settings: SshSettings, origin: Origin, hosts: Hosts) -> None:
        self._settings = settings
        self._cluster, self._server = origin.cluster, origin.server
        self._hosts = hosts

    def steps(self, probe: Probe) -> Iterator[Finding]:
        settings, hosts = self._settings, self._hosts
        yield Finding("key", True, "The cluster has a private key.")
        words = probe.words(settings.interpreter, settings.folder)
        answers: list[JsonObject] = []
        for host in hosts.all:
            try:
                found = probe_answers(hosts.run(host, words, limit_s=PROBE_LIMIT_S))
            except SystemAway as error:
                advice = f"By hand: ssh -p {host.target.port} {host.label.split(':')[0]}"
                yield Finding("host", False, str(error), advice)
            except HostProblem as error:
                advice = f"Trainyard must be there: {settings.interpreter} -m workers.machine.probe"
                yield Finding("host", False, str(error), advice)
            else:
                answers += found
                sentence = f"{host.label} ({host.target.fingerprint}) answers: {probe_names(found)}."
                yield Finding("host", bool(found), sentence)
        if answers:
            yield from probe.findings(answers, settings.folder)

    def jobs(self) -> list[SystemJob]:
        answers, problems = self._hosts.list()
        if not answers:
            raise SystemAway(" ".join(sorted(problems.values())[:3]))
        parts = parts_of(answers)
        for one in parts:
            self._end_others_of_a_failed(one)
        return [job_of(one, self._away(one, problems)) for one in parts]

    def find(self, job: str) -> SystemJob | None:
        """Return the attempt's job; None where no host lists it. Raises SystemAway where a host does not answer."""
        answers, problems = self._hosts.list()
        if problems:
            names = ", ".join(sorted(problems)[:3])
            raise SystemAway(f"It is not known what runs on {names}. {next(iter(problems.values()))}")
        return next((job_of(one, self._away(one, {})) for one in parts_of(answers) if one.attempt == job), None)

    def submit(self, request: MachineRequest) -> str:
        answers, problems = self._hosts.list()
        parts = parts_of(answers)
        plan = next((list(one.hosts) for one in parts if one.attempt == request.attempt), [])
        chosen = plan or self._free(request, answers, parts, problems)
        by_label = {host.label: host for host in self._hosts.all}
        for number, label in enumerate(chosen):
            host = by_label.get(label)
            if host is None:
                raise SystemAway(f"{label} was taken out of cluster {self._cluster}, and the attempt was begun on it.")
            self._start(host, request, number, chosen)
        return request.attempt

    def cancel(self, job: str) -> None:
        answers, problems = self._hosts.list()
        parts = next((one for one in parts_of(answers) if one.attempt == job), None)
        if parts is not None:
            problems = {**problems, **self._hosts.end(parts.by_host)}
        waiting = {label: words for label, words in problems.items() if parts is None or label in parts.hosts}
        if waiting:
            raise SystemAway(next(iter(waiting.values())))

    def _free(
        self, request: MachineRequest, answers: Answers, parts: Sequence[Parts], problems: Mapping[str, str]
    ) -> list[str]:
        """Choose hosts that answer and have nothing of ours, those with the fewest slots that will do."""
        taken = {label for one in parts for label in one.hosts}
        free = [host for host in self._hosts.all if host.label in answers and host.label not in taken]
        able = sorted((host for host in free if host.slots >= request.slots), key=lambda host: host.slots)
        if len(able) < request.num_machines:
            why = f" {' '.join(list(problems.values())[:3])}" if problems else ""
            raise SystemAway(
                f"Cluster {self._cluster} has {counted(len(able), 'free host')} with {counted(request.slots, 'slot')} "
                f"of {request.num_machines} that are needed.{why}"
            )
        return [host.label for host in able[: request.num_machines]]

    def _start(self, host: Host, request: MachineRequest, number: int, hosts: Sequence[str]) -> None:
        job = HostJob(attempt=request.attempt, machine=number, hosts=[*hosts])
        home = f"{self._settings.folder}/machines"
        words = node_words(self._settings.interpreter, request, server=self._server, home=home)
        words += ["--machine", str(number), "--address", host.target.host]
        tokens = [*[NO_TOKEN] * number, request.tokens[number]]  # a host gets its own alone
        checkpoints = self._settings.checkpoints or f"{self._settings.folder}/checkpoints"
        variables = node_variables(tokens, checkpoints=checkpoints, cores=host.cores)
        try:
            self._hosts.start(host, job, words, variables)
        except HostProblem as error:
            raise SystemAway(str(error)) from error

    def _away(self, parts: Parts, problems: Mapping[str, str]) -> set[str]:
        """Return the hosts of which nothing is known: they do not answer, or were taken out of the cluster."""
        return {*problems, *parts.hosts} - {host.label for host in self._hosts.all if host.label not in problems}

    def _end_others_of_a_failed(self, parts: Parts) -> None:
        """A node that could not start leaves the others waiting for it in vain."""
        if any(map(_failed_early, parts.by_host.values())):
            self._hosts.end({host: job for host, job in parts.by_host.items() if job.state == HostJobState.RUNNING})


def parts_of(answers: Answers) -> list[Parts]:
    """Return the attempts of which any host lists a part."""
    found: dict[str, dict[str, HostJob]] = defaultdict(dict)
    hosts: dict[str, Sequence[str]] = {}
    for label, answer in answers.items():
        for job in answer.jobs:
            if job.machine < len(job.hosts) and job.hosts[job.machine] == label:
                hosts[job.attempt] = job.hosts
                found[job.attempt][label] = job
    return [Parts(attempt, hosts[attempt], found[attempt]) for attempt in sorted(hosts)]


def job_of(parts: Parts, away: Collection[str]) -> SystemJob:
    """Return the parts as one job: it is over once all of them are. ``away``: hosts that do not answer."""
    by_host = {label: one for label, one in parts.by_host.items() if one.state != HostJobState.PLANNED}
    started, missing = list(by_host.values()), [label for label in parts.hosts if label not in by_host]
    is_known = not any(label in away for label in missing)
    states = {one.state for one in started}
    job = SystemJob(
        parts.attempt,
        parts.attempt,
        JobState.RUNNING,
        hosts=tuple(parts.hosts),
        started_at=max((one.started_at or 0.0 for one in started), default=None),
    )
    if states == {HostJobState.OVER} and is_known:
        return job.ended(_end_of(started, parts), is_kept=True)
    if any(label not in away for label in missing) and HostJobState.OVER not in states:
        sentence = "it is being started."
        return replace(job, state=JobState.PENDING, sentence=sentence, started_at=None, is_incomplete=True)
    return job


def _end_of(ended: Sequence[HostJob], parts: Parts) -> JobEnd:
    failed = [one for one in ended if one.exit_code != 0]
    if not failed:
        return JobEnd(None, "The nodes ended.", 0)
    part = next((one for one in failed if one.last_words), failed[0])
    label = parts.hosts[part.machine]
    if part.exit_code is None:
        sentence = f"The node on {label} was gone when the server looked: the host was started anew, or it was killed."
        return JobEnd(EndKind.NODE_FAILED, sentence)
    words = f": {part.last_words.rstrip('.')}" if part.last_words else ""
    return JobEnd(EndKind.ENDED, f"The node on {label} ended with exit code {part.exit_code}{words}.", part.exit_code)


def _failed_early(job: HostJob) -> bool:
    is_early = job.started_at is not None and job.ended_at is not None and job.ended_at - job.started_at < EARLY_S
    return job.state == HostJobState.OVER and bool(job.exit_code) and is_early
