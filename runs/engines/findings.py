"""Findings of `trainyard doctor`: one line a step, and what to mend where a step failed. Most engines have machines try
what a node does (``workers.machine.probe``)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from django.conf import settings

from runs.serving import certificates
from trainyard.contract.base import BadDocument, JsonObject, decode
from trainyard.formats.words import counted

JOIN_ADVICE = (
    "Set the cluster's server, or start the server with a PUBLIC_URL that the machines reach. Where a proxy's "
    "certificate is refused, start it with TRAINYARD_CA, a file of the authority that signed it (docs/tls.md)."
)
VALKEY_ADVICE = "Start the server with a REDIS_URL that the machines reach."
FOLDER_ADVICE = "The folder must be there on every machine, and the user of the nodes must be able to write to it."


@dataclass(frozen=True)
class Finding:
    """``is_fine`` None: it could not be found out, and is no fault. ``advice`` says what to mend."""

    step: str
    is_fine: bool | None
    sentence: str
    advice: str = ""


class Probe(NamedTuple):
    """A machine's test: whether it reaches the server, its Valkey and the cluster's folder."""

    server: str
    valkey: str

    def words(self, interpreter: str, folder: str) -> list[str]:
        return [interpreter, "-P", "-m", "workers.machine.probe", self.server, self.valkey, folder, *trusted_words()]

    def findings(self, answers: Sequence[JsonObject], folder: str) -> Iterator[Finding]:
        problems = [(str(one.get("host")), str(word)) for one in answers for word in one.get("problems") or []]
        places = {"server": self.server, "Valkey": self.valkey, "folder": folder}
        for step, advice in (("server", JOIN_ADVICE), ("Valkey", VALKEY_ADVICE), ("folder", FOLDER_ADVICE)):
            wrong = [f"{host}: {word.partition(': ')[2]}" for host, word in problems if word.startswith(f"{step}: ")]
            is_reached = f"{places[step]} is reached from the machines."
            sentence = f"{places[step]} is not reached. {'; '.join(wrong)}." if wrong else is_reached
            yield Finding(step, not wrong, sentence, advice if wrong else "")

    def trial(self, answers: Sequence[JsonObject], number: int, folder: str) -> Iterator[Finding]:
        """Yield what a short job on ``number`` machines found, which has run."""
        sentence = f"A short job ran on {len(answers)} of {machines(number)}: {probe_names(answers)}."
        yield Finding("job", len(answers) == number, sentence)
        yield from self.findings(answers, folder)


def probe_of(server: str) -> Probe:
    return Probe(server, valkey_place(str(settings.NODES_REDIS_URL)))


def not_run(number: int, why: object, advice: str = "") -> Finding:
    return Finding("job", False, f"A short job on {machines(number)} did not run: {why}", advice)


def machines(number: int) -> str:
    return counted(number, "machine")


def trusted_words() -> list[str]:
    """Return by which authority a machine is to know the server, as its join token says it."""
    found = certificates.fingerprint()
    return [found] if found else []


def probe_answers(text: str) -> list[JsonObject]:
    """Return one answer for each machine, of what they printed together."""
    found = []
    for line in text.splitlines():
        try:
            found.append(decode(line, JsonObject))
        except BadDocument:  # what a shell profile printed
            continue
    return found


def probe_names(answers: Sequence[JsonObject]) -> str:
    return ", ".join(f"{one.get('host')} (Trainyard {one.get('version')})" for one in answers) or "none"


def valkey_place(redis_url: str) -> str:
    """Return host and port of Valkey, or its socket, without name and password."""
    parts = urlsplit(redis_url)
    return unquote(parts.path) if parts.scheme == "unix" else f"{parts.hostname or 'localhost'}:{parts.port or 6379}"
