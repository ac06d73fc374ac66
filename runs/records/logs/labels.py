"""Labels of lines, by the rules of a run and those that ship with Trainyard: made when lines are read, not stored."""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from runs.models import Placement, Run
from runs.models.runs import log_rules_of
from runs.records.logs.lines import LineDocument
from trainyard.contract.orders import LogRule
from trainyard.failures.log_rules import LineRules, builtin_rules


def label_lines(run: Run, items: Sequence[LineDocument]) -> None:
    """Add ``labels`` to those of these lines (each with its ``text``) that fit a rule of the run."""
    rules = _compiled(tuple((rule.label, rule.pattern) for rule in log_rules_of(run)))
    text = "\n".join(str(item["text"]).replace("\n", " ") for item in items)
    for rule, number in rules.fits(text.encode("utf-8", "replace")):
        labels = items[number].setdefault("labels", [])
        if rules.rules[rule].label not in labels:
            labels.append(rules.rules[rule].label)


def pattern_of(run: Run, label: str) -> str | None:
    """Return an expression for the lines that have the label; None where no rule gives it."""
    found = [rule.pattern for rule in [*log_rules_of(run), *builtin_rules()] if rule.label == label]
    return "|".join(f"(?:{one})" for one in found) or None


def counts_of(run: Run, attempt: int | None = None) -> dict[str, int]:
    """Return how many lines got each label, as the nodes counted them. ``attempt``: the fence of one."""
    placements = Placement.objects.filter(attempt__run=run)
    if attempt is not None:
        placements = placements.filter(attempt__fence=attempt)
    counts: Counter[str] = Counter()
    for placement in placements:
        if placement.report.get("matches"):
            counts.update({match.label: match.count for match in placement.reported.matches})
    return dict(counts)


@lru_cache(maxsize=64)
def _compiled(rules: tuple[tuple[str, str], ...]) -> LineRules:
    return LineRules([*(LogRule(label, pattern) for label, pattern in rules), *builtin_rules()])
