"""Rules about lines of a log: which lines get a label, and what follows from them. Pure.

All rules together are one expression of RE2, so that lines which fit none, nearly all, cost one pass over their bytes.
What fits is then held against each rule alone. RE2 never backtracks: no rule of anybody can hold up a log.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from trainyard.contract.causes import CauseClass
from trainyard.contract.orders import LogRule
from trainyard.contract.reports import RuleMatch
from trainyard.failures.signs import SIGNS
from trainyard.formats.regular_expressions import BadExpression, compiled, compiled_any, compiled_for_lines

# Classes of failures whose signs in a log are worth a label. Others are about the code, which says so itself.
LABELLED = (
    CauseClass.GPU_FAULT, CauseClass.GPU_OUT_OF_MEMORY, CauseClass.OUT_OF_MEMORY, CauseClass.DISK_FULL,
    CauseClass.STORAGE, CauseClass.COLLECTIVE_TIMEOUT, CauseClass.NETWORK, CauseClass.KILLED,
)  # fmt: skip


HARDWARE = frozenset({str(CauseClass.GPU_FAULT), str(CauseClass.DISK_FULL)})


class Fit(NamedTuple):
    """A rule fits a line: ``rule`` is its place among the rules, ``line`` the number of the line in the text."""

    rule: int
    line: int


def builtin_rules() -> list[LogRule]:
    """Return a rule for each class of failures, from the signs by which its cause is found."""
    found: dict[CauseClass, list[str]] = {one: [] for one in LABELLED}
    for pattern, sign in SIGNS:
        if sign.cause_class in found:
            found[sign.cause_class].append(pattern.pattern)
    return [LogRule(label=str(one), pattern=f"(?i:{'|'.join(parts)})", is_builtin=True) for one, parts in found.items()]


class LineRules:
    """Rules, compiled once, for texts of many lines."""

    def __init__(self, rules: Sequence[LogRule]) -> None:
        """A rule whose pattern is none, as of a newer server, is left out."""
        self.rules: list[LogRule] = []
        self._alone: list[Any] = []
        for rule in rules:
            try:
                self._alone.append(compiled_for_lines(rule.pattern))
            except BadExpression:
                continue
            self.rules.append(rule)
        metrics = [(at, rule.pattern) for at, rule in enumerate(self.rules) if rule.action == "metric"]
        self._numbers = {at: compiled(pattern, never_capture=False) for at, pattern in metrics}  # with their groups
        self._open = set(range(len(self.rules)))
        self._together = self._compiled()

    def fits(self, text: bytes) -> Iterator[Fit]:
        """Yield what fits, line by line; ``text`` has its lines as UTF-8 with line feeds between them."""
        position, line, counted = 0, 0, 0
        while self._together is not None and (found := self._together.search(text, position)) is not None:
            start = text.rfind(b"\n", 0, found.start()) + 1
            end = text.find(b"\n", found.start())
            end = len(text) if end < 0 else end
            line += text.count(b"\n", counted, start)
            counted = start
            one = text[start:end]
            for rule in sorted(self._open):
                if self._alone[rule].search(one) is not None:
                    yield Fit(rule, line)
            if end >= len(text):
                return
            position = end + 1

    def number_in(self, rule: int, line: str) -> tuple[float, int | None] | None:
        """Return the value that a rule of a metric finds in the line, and the step where it has a group of that name;
        None for what is no number."""
        pattern = self._numbers.get(rule)
        found = pattern.search(line.encode("utf-8", "replace")) if pattern else None
        if pattern is None or found is None:
            return None
        step_at = pattern.groupindex.get(b"step", 0)
        value_at = pattern.groupindex.get(b"value") or next(at for at in (1, 2) if at != step_at)
        try:
            return float(found.group(value_at)), int(found.group(step_at)) if step_at else None
        except (ValueError, TypeError):  # no number, or a group that is not in this line
            return None

    def close(self, rule: int) -> None:
        """Seek this rule no more: its lines were counted often enough."""
        self._open.discard(rule)
        self._together = self._compiled()

    def labels_of(self, line: str) -> list[str]:
        """Return the labels of one line, each once."""
        text = line.encode("utf-8", "replace").replace(b"\n", b" ")
        return list(dict.fromkeys(self.rules[fit.rule].label for fit in self.fits(text)))

    def _compiled(self) -> Any:
        if not self._open:
            return None
        return compiled_any([self.rules[rule].pattern for rule in sorted(self._open)])


def hardware_lines(matches: Sequence[RuleMatch]) -> list[str]:
    """Return the lines that say what failed in the machine. A process may print one long before it ends, and then end
    with a plain exit code."""
    return [one.line for one in matches if one.is_builtin and one.label in HARDWARE and one.stream == "stderr"]


def last_words(matches: Sequence[RuleMatch]) -> list[str]:
    """Return what a process that left no word of its end had said before: a full disk does not take the word."""
    full = [one.line for one in matches if one.is_builtin and one.label == str(CauseClass.DISK_FULL)]
    return hardware_lines(matches) or full
