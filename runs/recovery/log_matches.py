"""Effects of rules about lines of the log: events in the history, and a say in restarts."""

from collections.abc import Iterable, Sequence

from django.db import transaction

from runs.models import Attempt, Placement
from runs.values.columns import LeftOutNode
from trainyard.contract.base import to_builtins
from trainyard.contract.orders import LogAction
from trainyard.contract.reports import RuleMatch

MATCHED = "log-rule"
LEFT_OUT_S = 900.0  # as long as a node is left out after a failure
FOLLOWS: dict[LogAction, str] = {
    "label": "",
    "notify": "",
    "exclude-node": " If the run is started again, {node} is left out.",
    "metric": "",
    "no-retry": " If the run fails, it is not started again.",
}


def record_matches(attempts: Iterable[Attempt]) -> None:
    """Write an event for each rule of a person that lines of these attempts have met since the last time."""
    for attempt in attempts:
        if found := matches_of(list(attempt.placements.all())):
            _record(attempt, found)


def matches_of(placements: Sequence[Placement]) -> list[tuple[Placement, RuleMatch]]:
    """Return the matches of rules that people wrote, the earliest first. Those that ship with Trainyard only label."""
    found = [
        (placement, match)
        for placement in placements
        if placement.report.get("matches")
        for match in placement.reported.matches
        if not match.is_builtin and match.action != "metric"
    ]
    return sorted(found, key=lambda one: one[1].at)


def _record(attempt: Attempt, found: Sequence[tuple[Placement, RuleMatch]]) -> None:
    if {match.label for _, match in found} <= set(_recorded(attempt)):
        return
    with transaction.atomic():
        Attempt.objects.select_for_update().get(pk=attempt.pk)  # another process may be at the same
        known = set(_recorded(attempt))
        for placement, match in found:
            if match.label in known:
                continue
            known.add(match.label)
            data = {**to_builtins(match), "node": placement.node.name}
            attempt.run.record(MATCHED, sentence_of(match, placement.node.name), data=data, attempt=attempt)


def _recorded(attempt: Attempt) -> list[str]:
    return [str(data.get("label")) for data in attempt.events.filter(code=MATCHED).values_list("data", flat=True)]


def sentence_of(match: RuleMatch, node: str) -> str:
    line = " ".join(match.line.split())
    follows = FOLLOWS[match.action].format(node=node)
    return f"Rank {match.rank} on {node} printed what the rule {match.label} looks for ({line}).{follows}"


def refusing_rule(placements: Sequence[Placement]) -> str:
    """Return the label of a rule by which the run is not started again; empty where there is none."""
    return next((match.label for _, match in matches_of(placements) if match.action == "no-retry"), "")


def left_out_by_rules(placements: Sequence[Placement], now: float) -> list[LeftOutNode]:
    """Return the nodes that a rule leaves out, each once."""
    found: dict[str, LeftOutNode] = {}
    for placement, match in matches_of(placements):
        if match.action == "exclude-node" and placement.node_id not in found:
            node, why = placement.node, f"rule {match.label} of the log"
            found[node.pk] = LeftOutNode(node=node.pk, name=node.name, why=why, until=now + LEFT_OUT_S)
    return list(found.values())
