"""Rules of the log in the history, in restarts and in causes."""

from __future__ import annotations

from typing import Any

import pytest

from runs.models import Attempt
from tests.cast import make_node, spec
from tests.runs.life.reconcile.conftest import Yard, yard
from tests.voices import Voice

__all__ = ["yard"]
FAILED = {"reason": {"code": "rank_failed", "sentence": "Rank 1 failed.", "evidence": {}}}


def match(label: str, action: str, **changes: Any) -> dict[str, Any]:
    return {
        "label": label,
        "action": action,
        "rank": 1,
        "stream": "stderr",
        "line": "nfs: server gone",
        "at": 5.0,
        **changes,
    }


@pytest.fixture
def restarting(yard: Yard) -> Yard:
    """A run that may be restarted, on two of three nodes."""
    resources = {"nodes": 2, "processes_per_node": 1}
    yard.run.spec = {**spec(resources=resources), "restarts": {"max": 3, "on": {"user-error": "restart"}}}
    yard.run.save()
    yard.voices.append(Voice(make_node(yard.cast.cluster, "node-c")))
    yard.start()
    return yard


def fail(yard: Yard, *matches: dict[str, Any]) -> str:
    """Let rank 1 on the second node end with exit code 1, and the other node stop."""
    rank = {"rank": 1, "exit_code": 1, "ended_at": 9.0, "started_at": 1.0}
    yard.say("ended", 1, ranks=[rank], matches=list(matches), **FAILED)
    yard.say("ended", 0, ranks=[{"rank": 0, "exit_code": 0, "ended_at": 10.0, "was_ended": True}])
    yard.tick()
    yard.later(3)
    return yard.tick()


def newest(yard: Yard) -> Attempt:
    return yard.run.attempts.order_by("-number")[0]


def test_a_rule_that_is_met_is_one_event_with_its_line(restarting: Yard) -> None:
    for count in (1, 7):
        restarting.say("running", 1, matches=[match("slow-disk", "notify", count=count)])
        restarting.tick()
    (event,) = restarting.run.events.filter(code="log-rule")
    assert event.sentence == "Rank 1 on node-b printed what the rule slow-disk looks for (nfs: server gone)."
    assert event.data["node"] == "node-b" and event.data["label"] == "slow-disk"


def test_what_ships_with_trainyard_only_labels(restarting: Yard) -> None:
    restarting.say("running", 1, matches=[match("network", "label", is_builtin=True)])
    restarting.tick()
    assert not restarting.run.events.filter(code="log-rule").exists()


def test_a_node_that_a_rule_excludes_is_left_out_of_the_restart(restarting: Yard) -> None:
    assert fail(restarting, match("slow-disk", "exclude-node")) in ("RECOVERING", "SCHEDULED")
    restarting.tick()
    sentences = " ".join(restarting.run.events.values_list("sentence", flat=True))
    assert "node-b is left out until" in sentences and "(rule slow-disk of the log)" in sentences
    names = [one.node.name for one in newest(restarting).placements.select_related("node")]
    assert "node-b" not in names and "node-c" in names


def test_a_rule_may_say_that_a_run_is_not_restarted(restarting: Yard) -> None:
    assert fail(restarting, match("broken-data", "no-retry", line="bad magic number")) == "FAILED"
    assert restarting.run.reason_sentence.endswith("The rule broken-data of the log says that it is not restarted.")


def test_a_line_about_the_machine_is_the_cause_of_a_plain_exit_code(restarting: Yard) -> None:
    line = "CUDA error: uncorrectable ECC error encountered"
    fail(restarting, match("gpu-fault", "label", is_builtin=True, line=line))
    cause = restarting.run.attempts.get(number=1).known_cause
    assert cause is not None and cause.cause_class == "gpu-fault"
    assert cause.evidence["rules"][0]["line"] == line
