"""Who may start, whatever room there is: rules on plain values."""

from __future__ import annotations

from dataclasses import replace

from runs.placing.admission import Terms, refused
from runs.placing.scheduling import Request

TERMS = Terms(cluster="lab", projects=frozenset({"mine"}), people=frozenset({7}), elsewhere={}, trials={})


def asked(run: str, project: str = "mine", person: int | None = 1) -> Request:
    return Request(run, 1, 1, project=project, person=person)


def test_the_runs_of_a_project_or_a_person_that_the_cluster_takes_may_start() -> None:
    others = [asked("b", "theirs"), asked("c", "theirs", 7), asked("d", "theirs", None)]
    sentence = "Its project may not use cluster lab any more."
    assert refused([asked("a"), *others], TERMS) == {"b": sentence, "d": sentence}


def test_what_another_rule_refuses_has_the_first_ones_sentence_and_nobody_else_is_named() -> None:
    terms = replace(TERMS, elsewhere={"mine": "It waits."}, trials={"b": "Sweep s is paused.", "gone": "Paused."})
    found = refused([asked("a"), asked("b"), asked("c", "theirs")], terms)
    assert found == {
        "a": "It waits.", "b": "Sweep s is paused.", "c": "Its project may not use cluster lab any more.",
    }  # fmt: skip
