"""Who may start, whatever room there is: rules on plain values."""

from __future__ import annotations

from dataclasses import replace

from runs.placing.admission import Part, Terms, refused, within
from runs.placing.fitting import Request

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


def test_a_project_holds_no_more_slots_than_it_may_and_a_smaller_run_still_starts() -> None:
    terms = replace(TERMS, parts={"mine": Part(slots=4, held=2.0)})
    found = refused([Request("a", 1, 1, project="mine"), Request("b", 2, 1, project="mine"), asked("c")], replace(
        terms, people=frozenset({1}),
    ))  # fmt: skip
    assert found == {"b": "Project mine may hold 4 slots at once: it holds 2, and this run needs 2."}


def test_a_month_that_is_used_up_keeps_the_queue_and_a_limit_below_what_runs_ends_nothing() -> None:
    spent = replace(TERMS, parts={"mine": Part(slot_hours=1.5, used_hours=1.5)})
    assert refused([asked("a")], spent) == {"a": "Project mine has used the 1.5 slot-hours that it has in a month."}
    assert refused([asked("a")], replace(TERMS, parts={"mine": Part(slot_hours=1.5, used_hours=1.4)})) == {}
    lowered = replace(TERMS, parts={"mine": Part(slots=1, held=3.0)})
    words = "Project mine may hold 1 slots at once: it holds 3, and this run needs 1."
    assert refused([asked("a")], lowered) == {"a": words}


def test_an_elastic_run_that_starts_again_has_no_more_nodes_than_the_limit_has_room_for() -> None:
    terms = replace(TERMS, parts={"mine": Part(slots=5, held=1.0)})
    elastic = Request("a", 1, 2, node_counts=(1, 2, 3), project="mine")
    assert within(elastic, terms).node_counts == (1, 2)
    assert within(replace(elastic, project="other"), terms).node_counts == (1, 2, 3)
