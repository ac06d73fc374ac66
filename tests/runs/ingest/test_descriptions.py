"""What a script says of its run, as it arrives in records: configuration, tags, notes, group, metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runs.ingest.commit import commit
from runs.models import Run
from runs.records.metrics.models import DeadLetter, Fact, Telemetry
from runs.records.metrics.progress import METRIC_RULES, stated_axes, stated_goal
from runs.values import run_config
from tests.runs.ingest.test_checkpoints import NODE, incoming
from tests.spools import Spool

pytestmark = pytest.mark.django_db(databases="__all__")
MakeRun = Callable[..., Run]


def said(run: Run, *descriptions: dict[str, Any]) -> Run:
    """A rank of the run said this, and it has arrived twice."""
    spool = Spool()
    spool.begin(rank=0)
    for one in descriptions:
        spool.add("description", **one)
    for _ in range(2):
        commit(run.pk, fence=1, source=NODE, batch=incoming(spool.bytes))
    run.refresh_from_db()
    return run


def test_a_script_adds_to_the_configuration_and_the_tags_of_its_run(make_run: MakeRun) -> None:
    run = make_run(config={"lr": 0.1, "seed": 1}, tags=["mine"])
    said(run, {"config": {"lr": 0.2}}, {"config": {"lr": 0.2, "width": 8}, "tags": ["theirs", "mine"], "notes": "why"})
    assert (run.config, run.tags, run.notes) == ({"lr": 0.2, "seed": 1, "width": 8}, ["mine", "theirs"], "why")
    assert run.described_at is not None


def test_notes_that_a_person_wrote_stay(make_run: MakeRun) -> None:
    assert said(make_run(notes="a person's"), {"notes": "the script's"}).notes == "a person's"


def test_rules_of_metrics_are_facts_of_the_run(make_run: MakeRun) -> None:
    said(make_run(), {"metrics": {"val/loss": {"x": "epoch", "goal": "min"}}})
    assert Fact.objects.get(name=METRIC_RULES).data == {"val/loss": {"x": "epoch", "goal": "min"}}


def test_the_goal_of_a_metric_is_what_the_scripts_agree_on(make_run: MakeRun) -> None:
    one, other, silent = make_run(), make_run(), make_run()
    said(one, {"metrics": {"score": {"goal": "min"}, "gap": {"goal": "max"}, "x": {"summary": "max"}}})
    said(other, {"metrics": {"score": {"goal": "min"}, "gap": {"goal": "min"}}})
    ids = [one.pk, other.pk, silent.pk]
    assert [stated_goal(ids, name) for name in ("score", "gap", "x", "none")] == [False, None, None, None]
    assert stated_goal([one.pk], "gap") is True


def test_a_metric_is_drawn_over_the_one_that_the_scripts_agree_on(make_run: MakeRun) -> None:
    one, other, silent = make_run(), make_run(), make_run()
    said(one, {"metrics": {"val/loss": {"x": "epoch"}, "acc": {"x": "epoch"}, "plain": {"goal": "min"}}})
    said(other, {"metrics": {"val/loss": {"x": "epoch"}, "acc": {"x": "samples"}}})
    assert stated_axes([one.pk, other.pk, silent.pk]) == {"val/loss": "epoch"}
    assert stated_axes([one.pk]) == {"val/loss": "epoch", "acc": "epoch"} and stated_axes([silent.pk]) == {}


def test_what_no_database_takes_is_cleaned_and_what_is_too_large_is_said(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = said(make_run(), {"config": {"nul\0": "a\0b", "bad": float("nan")}})
    assert "\0" not in str(run.config) and run.config["bad"] is None
    monkeypatch.setattr(run_config, "MAX_BYTES", 100)
    said(run, {"config": {"first": "x" * 70}})
    assert run.config.get("first") is None, "with what was there it is too much"
    assert Telemetry.objects.get(pk=run.pk).troubles["config_limit"] == 1
    said(run, {"config": {"large": "x" * 200}})
    assert DeadLetter.objects.get().reason.startswith("config: ")


def test_a_run_that_is_gone_harms_nothing() -> None:
    spool = Spool()
    spool.begin(rank=0)
    spool.add("description", config={"lr": 1})
    assert commit("gone", fence=1, source=NODE, batch=incoming(spool.bytes)).cursor == 1
