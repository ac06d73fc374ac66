"""Holds what ranks print against the rules of the log, and counts what fits. A bounded part of it is reported: the
first line and the number for each rule."""

import struct
import threading
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from trainyard.contract.orders import LogRule
from trainyard.contract.records import Group, Stream
from trainyard.contract.reports import RuleMatch
from trainyard.failures.log_rules import LineRules, builtin_rules
from trainyard.formats.words import ANSI

MAX_COUNTED = 10_000  # lines of one rule; behind it nobody needs the exact number
MAX_LINE = 400  # characters of a line in a report


class RuleWatch:
    """The collector reads lines into it, and the supervisor's main thread reads what was found."""

    def __init__(self, rules: Sequence[LogRule]) -> None:
        self._given = rules
        self._found: dict[int, RuleMatch] = {}
        self._points: dict[tuple[str, int], list[tuple[int, float, float]]] = {}  # step, time, value
        self._num_points: Counter[tuple[str, int]] = Counter()
        self._lock = threading.Lock()
        self.has_news = False  # a rule was met for the first time

    @cached_property
    def _rules(self) -> LineRules:
        """Made when the first line comes: ranks that start do not wait for it."""
        return LineRules([*self._given, *builtin_rules()])

    def read(self, lines: Sequence[str], *, rank: int, stream: Stream, at: float) -> None:
        for rule, number in self._rules.fits("\n".join(lines).encode("utf-8", "replace")):
            line = lines[number] if number < len(lines) else ""
            self._count(rule, rank, stream, line, at)
            self._measure(rule, rank, line, at)

    def take_points(self) -> list[Group]:
        """Return the points that rules of metrics have found in lines since the last time."""
        found, self._points = self._points, {}
        return [
            Group({"rank": str(rank)} if rank else {}, (name,), *(struct.pack(f"<{len(points)}{kind}", *column)
                  for kind, column in zip("qdd", zip(*points, strict=True), strict=True)))
            for (name, rank), points in found.items()
        ]  # fmt: skip

    def _measure(self, rule: int, rank: int, line: str, at: float) -> None:
        """Keep a point of the rule's metric; without a step of its own it has the number of its line among them."""
        number = self._rules.number_in(rule, line)
        if number is not None:
            key = self._rules.rules[rule].label, rank
            self._num_points[key] += 1
            value, step = number
            self._points.setdefault(key, []).append((self._num_points[key] - 1 if step is None else step, at, value))

    def matches(self) -> list[RuleMatch]:
        """Return what was found so far, in the order of the rules."""
        with self._lock:
            self.has_news = False
            return [self._found[rule] for rule in sorted(self._found)]

    def _count(self, rule: int, rank: int, stream: Stream, line: str, at: float) -> None:
        with self._lock:
            found = self._found.get(rule)
            if found is not None:
                found.count += 1
            else:
                wanted = self._rules.rules[rule]
                self._found[rule] = RuleMatch(
                    label=wanted.label,
                    action=wanted.action,
                    is_builtin=wanted.is_builtin,
                    rank=rank,
                    stream=stream,
                    line=ANSI.sub("", line)[:MAX_LINE],
                    at=at,
                )
                self.has_news = True
                return
        if found.count >= MAX_COUNTED and self._rules.rules[rule].action != "metric":
            self._rules.close(rule)
