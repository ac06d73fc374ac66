"""Asking the hosts of an SSH cluster, several at once. A host that did not answer is left alone for a while."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from runs.engines.machine_system import SystemAway
from runs.engines.openssh.client import LIMIT_S, OpenSsh
from runs.engines.ssh.settings import Host
from trainyard.contract.base import BadDocument, decode, encode
from trainyard.contract.calls.host_jobs import HostAnswer, HostJob, HostQuestion, HostVerb

AWAY_S = 10.0  # after which a host that did not answer is tried again
MAX_AT_ONCE = 16
Answers = dict[str, HostAnswer]

_away: dict[tuple[str, str], tuple[float, str]] = {}  # until when, and why, by identity and host
_away_lock = threading.Lock()


class HostProblem(Exception):
    """The host answers, and cannot do what is asked; the message is a sentence."""


class Hosts:
    """``folder``: where each host keeps the jobs of ``mark``."""

    def __init__(self, hosts: Sequence[Host], identity: Path, interpreter: str, folder: str, mark: str) -> None:
        self.all = list(hosts)
        self._identity = identity
        self._interpreter = interpreter
        self._folder = folder
        self._mark = mark

    def list(self) -> tuple[Answers, dict[str, str]]:
        """Return what the hosts answer, and why others do not, by their labels."""
        return self.ask(self.all, lambda _: self._question(HostVerb.LIST))

    def start(self, host: Host, job: HostJob, words: Sequence[str], variables: dict[str, str]) -> HostAnswer:
        """Raises SystemAway, HostProblem."""
        question = self._question(HostVerb.START, job)
        question.words, question.variables = [*words], variables
        return self._answer(host, question)

    def end(self, hosts: Iterable[Host], job: Callable[[Host], HostJob | None]) -> dict[str, str]:
        """End the jobs of these hosts and return why some could not be asked."""
        chosen = {host.label: one for host in hosts if (one := job(host)) is not None}
        asked = [host for host in self.all if host.label in chosen]
        return self.ask(asked, lambda host: self._question(HostVerb.END, chosen[host.label]))[1]

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
