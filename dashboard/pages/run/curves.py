"""Curves of a script that only prints: named numbers that come again in its log, and the rules that follow them."""

import json
import re
from collections import defaultdict
from typing import NamedTuple
from urllib.parse import urlencode

from django.urls import reverse

from runs.models import Run
from runs.records.logs.read import end_of_log
from runs.records.metrics.models import Series
from trainyard.spec.sections.log_rules import MAX_RULES

NUM_LINES = 400  # of the end of the log
LEAST_LINES = 3
MOST_NAMES = 5
VALUE = r"([-+]?\d+\.\d*(?:[eE][-+]?\d+)?)"
NAMED = re.compile(rf"([A-Za-z][A-Za-z0-9_/.-]{{0,39}})\s*[=:]?\s*{VALUE}")
STEP = r"(?:step|iter|iteration|epoch)\W*(?P<step>\d+)"
NO_METRICS = frozenset({"in", "took", "at", "after", "v", "version", "time", "s", "to", "of", "is", "and"})


class Offer(NamedTuple):
    """Names whose numbers can be followed, a line that has the first, and the form with rules for them."""

    names: list[str]
    line: str
    url: str


def offer_of(run: Run) -> Offer | None:
    """None for a run that logs curves of its own, and where no number comes again."""
    own = Series.objects.filter(run_id=run.pk).exclude(name__startswith="system/")
    if run.is_local or "recipe" in run.spec.get("task", {}) or own.exists():
        return None
    found: dict[str, list[str]] = defaultdict(list)
    for _, line in end_of_log(run.pk, NUM_LINES):
        for name in dict.fromkeys(match[1] for match in NAMED.finditer(line) if match[1] not in NO_METRICS):
            found[name].append(line)
    often = sorted((name for name in found if len(set(found[name])) >= LEAST_LINES), key=lambda name: -len(found[name]))
    rules, names = list(run.spec.get("log_rules") or []), often[:MOST_NAMES]
    rules += [{"label": name, "pattern": _pattern(name, found[name]), "action": "metric"} for name in names]
    if not names or len(rules) > MAX_RULES:
        return None
    change = f"change:{run.pk}@{json.dumps({'log_rules': rules})}"
    return Offer(names, found[names[0]][-1].strip(), f"{reverse('launch')}?{urlencode({'from': change})}")


def _pattern(name: str, lines: list[str]) -> str:
    """The name and its number, behind the step where lines have one before it."""
    plain = rf"\b{re.escape(name)}\s*[=:]?\s*{VALUE}"
    with_step = rf"(?i:{STEP}).*{plain}"
    return with_step if all(re.search(with_step, line) for line in lines) else plain
