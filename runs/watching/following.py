"""What follows from a finding, by the run's own rules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from runs import replacing, rewinding, stopping
from runs.models import Attempt
from runs.models.findings import SlowRank
from runs.models.runs import StaleStatus
from runs.refused import Refused
from runs.status import TransitionError
from runs.watching.alarms import Alarm
from runs.watching.words import who
from trainyard.spec import SpecError
from trainyard.spec.sections.stragglers import StragglerRules

KEPT = "straggler-kept"
NOT_REWOUND = "rewind-refused"


def act_on_slow_ranks(attempt: Attempt, started: Sequence[SlowRank], now: datetime) -> None:
    """Go on without the node of ranks that have just been found slow, where the run's rules say so."""
    if not started or StragglerRules.of(attempt.run.spec).action != "exclude-node":
        return
    nodes = {one.node_id for one in started}
    node = next((one.node for one in attempt.placements.all() if one.node_id in nodes), None)
    if node is None:
        return
    try:
        if len(nodes) > 1:
            raise Refused("several", "The slow ranks are on several nodes.")
        replacing.go_on_without(attempt.run, attempt, node, why=f"{who(started)} slow there", actor=None, now=now)
    except Refused as error:
        sentence = f"The run goes on with {node.name}: {error.sentence[:1].lower()}{error.sentence[1:]}"
        attempt.run.record(KEPT, sentence, attempt=attempt)
    except (StaleStatus, TransitionError):
        return  # it has ended, or somebody has stopped it


def act_on_alarms(attempt: Attempt, alarms: Sequence[Alarm], now: datetime) -> None:
    """Do what the rule of the first alarm says that asks for more than a notice."""
    acting = next((one for one in alarms if one.rule.action != "notify"), None)
    if acting is None:
        return
    try:
        if acting.rule.action == "stop":
            words = f"{acting.alarm.sentence} Its rule stops the run: {stopping.what_follows(attempt.run, attempt)}."
            stopping.begin(attempt.run, attempt, why=stopping.RULE, code="stopping", sentence=words, now=now)
        else:
            rewinding.go_back_by_rule(attempt, acting.alarm, acting.rule, now)
    except (Refused, SpecError) as error:
        attempt.run.record(NOT_REWOUND, f"The run goes on and is not sent back: {error}", attempt=attempt)
    except (StaleStatus, TransitionError):
        return  # it has ended, or somebody has stopped it
