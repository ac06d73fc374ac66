"""What a machine found when it tried what a node does: ``workers.machine.probe``, for `trainyard doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import unquote, urlsplit

from runs.engines.findings import Finding
from runs.serving import certificates
from trainyard.contract.base import BadDocument, JsonObject, decode

JOIN_ADVICE = (
    "Set the cluster's server, or start the server with a PUBLIC_URL that the machines reach. Where a proxy's "
    "certificate is refused, start it with TRAINYARD_CA, a file of the authority that signed it (docs/tls.md)."
)
VALKEY_ADVICE = "Start the server with a REDIS_URL that the machines reach."
FOLDER_ADVICE = "The folder must be there on every machine, and the user of the nodes must be able to write to it."


def probe_words(interpreter: str, server: str, redis_url: str, folder: str) -> list[str]:
    words = [interpreter, "-P", "-m", "workers.machine.probe", server, valkey_place(redis_url), folder]
    return [*words, *trusted_words()]


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


def probe_findings(answers: Sequence[JsonObject], server: str, redis_url: str, folder: str) -> Iterator[Finding]:
    """Yield whether server, Valkey and folder are reached from all of them."""
    problems = [(str(one.get("host")), str(word)) for one in answers for word in one.get("problems") or []]
    places = {"server": server, "Valkey": valkey_place(redis_url), "folder": folder}
    for step, advice in (("server", JOIN_ADVICE), ("Valkey", VALKEY_ADVICE), ("folder", FOLDER_ADVICE)):
        wrong = [f"{host}: {word.partition(': ')[2]}" for host, word in problems if word.startswith(f"{step}: ")]
        is_reached = f"{places[step]} is reached from the machines."
        sentence = f"{places[step]} is not reached. {'; '.join(wrong)}." if wrong else is_reached
        yield Finding(step, not wrong, sentence, advice if wrong else "")


def valkey_place(redis_url: str) -> str:
    """Return host and port of Valkey, or its socket, without name and password."""
    parts = urlsplit(redis_url)
    return unquote(parts.path) if parts.scheme == "unix" else f"{parts.hostname or 'localhost'}:{parts.port or 6379}"
