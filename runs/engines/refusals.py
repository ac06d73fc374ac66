"""What the system of an engine does not do, as errors and sentences."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from runs.engines.findings import Finding

E = TypeVar("E", bound=Exception)
T = TypeVar("T")
MAX_QUOTED = 400
MAX_MESSAGE = 240  # of a system's words within a sentence of ours


class SystemAway(Exception):
    """The system cannot be asked now; the message is a sentence. It is asked again."""


class SystemRefused(Exception):
    """The system does not take the request and would not take it again; the message is a sentence."""


class Refusal(Exception):
    """The system answers, and does not carry a request out. The message is its own."""


def asked(call: Callable[[], T], problem: str) -> T:
    """Do the call. A refusal becomes SystemAway, since it is tried again; ``problem`` is what was not done."""
    try:
        return call()
    except Refusal as error:
        raise SystemAway(f"{problem}: {as_sentence(error)}") from error


def not_taken(
    system: str, cluster: str, error: Refusal, *, is_passing: bool, advice: str = ""
) -> SystemAway | SystemRefused:
    """Return the error for machines that were asked for in vain. ``is_passing``: the same may be taken later."""
    if is_passing:
        return SystemAway(f"{system} took no job on cluster {cluster}: {as_sentence(error)}")
    advice = advice or f"`trainyard doctor --cluster {cluster}` looks for the reason."
    return SystemRefused(f"{system} refused the job: {as_sentence(error)} {advice} Then restart the run.")


class StepFailed(Exception):
    """A step of ``trainyard doctor`` that the others need."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.sentence)
        self.finding = finding


@contextmanager
def needed(step: str, advice: str) -> Iterator[None]:
    """Raises StepFailed where the system does not answer, or refuses."""
    try:
        yield
    except (SystemAway, Refusal) as error:
        raise StepFailed(Finding(step, False, as_sentence(error), advice)) from error


def until_failed(steps: Iterator[Finding]) -> Iterator[Finding]:
    """Yield the steps, up to one that the others need."""
    try:
        yield from steps
    except StepFailed as error:
        yield error.finding


def as_sentence(error: Exception) -> str:
    return f"{str(error).rstrip('.')}."


def short(error: BaseException) -> str:
    """Return what a library's error says, for the end of a sentence."""
    return " ".join(str(error).split())[:MAX_QUOTED].rstrip(".") or type(error).__name__


def quoted(message: str) -> str:
    """Return what a system says, for the middle of a sentence."""
    text = " ".join(message.split()).rstrip(".")
    return text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]}…"


@contextmanager
def passing_over(kind: type[E], is_fine: Callable[[E], bool]) -> Iterator[None]:
    """Go on behind an error of this kind that is fine."""
    try:
        yield
    except kind as error:
        if not is_fine(error):
            raise


def explained(what: str, reason: str, message: str) -> str:
    """Return a sentence: what we say, what the system says, and its own word for it, as far as it has them."""
    text = quoted(message)
    words = f"{what}: {text}" if text else what
    return f"{words} ({reason})." if reason else f"{words}."
