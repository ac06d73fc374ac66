"""Rules about lines of the log: of a run, and of a cluster."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, ValidationError, model_validator

from trainyard.contract.base import JsonObject, SpecDocument
from trainyard.contract.orders import LogAction, LogRule
from trainyard.formats.regular_expressions import has_number, problem_of
from trainyard.spec.problems import Problem, SpecError, problems_of, show
from trainyard.spec.values.fields import Part, matching

MAX_RULES = 20
MAX_PATTERN, MAX_LABEL = 200, 40
ACTIONS: tuple[LogAction, ...] = ("label", "notify", "exclude-node", "no-retry", "metric")
LABEL = re.compile(r"[A-Za-z0-9_-]+")
ACCEPTED = "LABEL: PATTERN, or LABEL ACTION: PATTERN"


Label = Annotated[
    str,
    Field(min_length=1, max_length=MAX_LABEL),
    matching(r"[A-Za-z0-9_./-]+", "made of letters, digits, - and _, of a metric also / and ."),
]


def _pattern(value: str) -> str:
    if "\n" in value or "\r" in value:
        raise ValueError(f"must be one line, for it is sought in each line alone, not {show(value)}")
    if problem := problem_of(value):
        raise ValueError(f"must be an expression in RE2's syntax, not {show(value)}: {problem}")
    return value


def _rule(value: object) -> object:
    """Accept a rule in one line, as the form has it: ``slow-disk exclude-node: nfs: server .* not responding``."""
    if not isinstance(value, str):
        return value
    head, colon, pattern = value.partition(":")
    words = head.split()
    if not colon or not 1 <= len(words) <= 2 or (len(words) == 2 and words[1] not in ACTIONS):
        raise ValueError(f"must be {ACCEPTED}, where ACTION is {', '.join(ACTIONS)}, not {show(value)}")
    return {"label": words[0], "pattern": pattern.strip(), "action": words[1] if len(words) == 2 else "label"}


class RuleOfLog(Part):
    """One rule: lines that fit the pattern get the label, and the action follows."""

    label: Label
    pattern: Annotated[str, Field(min_length=1, max_length=MAX_PATTERN), AfterValidator(_pattern)]
    action: Literal["label", "notify", "exclude-node", "no-retry", "metric"] = "label"

    @model_validator(mode="after")
    def _fits_its_action(self) -> Self:
        if self.action != "metric" and not LABEL.fullmatch(self.label):
            raise ValueError(f"label must be made of letters, digits, - and _, not {show(self.label)}")
        if self.action == "metric" and not has_number(self.pattern):
            raise ValueError(
                f"pattern of a metric must have its number in brackets, as loss=(\\S+), not {show(self.pattern)}"
            )
        return self


def _once_each(value: list[RuleOfLog]) -> list[RuleOfLog]:
    labels = [rule.label for rule in value]
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"must have each label once; {show(label)} is there {labels.count(label)} times")
    return value


LogRules = Annotated[
    list[Annotated[RuleOfLog, BeforeValidator(_rule)]], Field(max_length=MAX_RULES), AfterValidator(_once_each)
]
_READER: TypeAdapter[list[RuleOfLog]] = TypeAdapter(LogRules)


def read_rules(value: object) -> list[dict[str, str]]:
    """Return rules as a cluster keeps them, from a list of rules or of lines. Raises SpecError, whose paths begin with
    ``log_rules``."""
    try:
        return [rule.model_dump() for rule in _READER.validate_python(value)]
    except ValidationError as error:
        found = problems_of(error, {str(place): list(RuleOfLog.model_fields) for place in range(MAX_RULES)})
        raise SpecError([Problem(f"log_rules.{one.path}".rstrip("."), one.message) for one in found]) from None


def line_of(rule: JsonObject) -> str:
    """Return a rule in one line, as ``read_rules`` takes it."""
    action = rule.get("action") or "label"
    return f"{rule['label']}{'' if action == 'label' else f' {action}'}: {rule['pattern']}"


def rules_of(spec: SpecDocument) -> list[LogRule]:
    return stored_rules(spec.get("log_rules"))


def stored_rules(rules: object) -> list[LogRule]:
    """Return rules as the contract has them, from a spec or a cluster that was checked before."""
    found = rules if isinstance(rules, list) else []
    return [LogRule(label=one["label"], pattern=one["pattern"], action=one.get("action", "label")) for one in found]
