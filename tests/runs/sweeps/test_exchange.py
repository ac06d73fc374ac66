"""A study's trials as the first trials of a sweep, and a sweep's trials as a study: the same again."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from runs.models import Sweep, Trial
from runs.sweeps.exchange import import_study, study_of, with_value
from runs.sweeps.stepping import Stepper
from tests.cast import Cast, spec
from trainyard.contract.statuses import TrialState
from trainyard.interchange.study import Distribution, Study, StudyTrial
from trainyard.spec import SpecError

RATE = Distribution(kind="float", low=1e-4, high=1e-1, log=True)
BATCH = Distribution(kind="choice", values=[16, 32])
SEED = Distribution(kind="choice", values=[7])
PATHS = ("train.learning_rate", "train.batch_size", "train.seed")


@pytest.fixture(autouse=True)
def no_server(valkey: object) -> None:
    """Hints are sent to a server that is there."""


def trial(number: int, rate: float, **changes: Any) -> StudyTrial:
    known: dict[str, Any] = {
        "number": number,
        "state": "COMPLETE",
        "parameters": dict(zip(PATHS, (rate, 16, 7), strict=True)),
        "distributions": dict(zip(PATHS, (RATE, BATCH, SEED), strict=True)),
        "values": [rate * 2],
        "reports": [(10, 3.0), (20, rate * 2)],
        "started_at": 1_700_000_000.25 + number,
        "ended_at": 1_700_000_100.5 + number,
        "attributes": {"host": "node-a"},
    }
    return StudyTrial(**{**known, **changes})


STUDY = Study(
    name="theirs",
    directions=["minimize"],
    metrics=["val/loss"],
    trials=[
        trial(0, 0.01),
        trial(1, 0.02, state="PRUNED", reports=[(10, 5.0), (20, "nan")], values=[]),
        trial(2, 0.03, state="FAILED", values=[], reports=[]),
        trial(3, 0.001, values=["inf"], reports=[(10, "-inf"), (20, 1.0)]),
        trial(4, 0.04, started_at=None, attributes={}),
    ],
)


def document(**changes: Any) -> dict[str, Any]:
    return {
        "name": "theirs",
        "base": spec(train={"steps": 100, "batch_size": 32, "seed": 7}),
        "space": {
            "train.learning_rate": {"low": 1e-4, "high": 1e-1, "log": True},
            "train.batch_size": {"values": [16, 32]},
        },
        "objective": {"metric": "val/loss", "direction": "minimize"},
        "budget": {"trials": 3, "parallel": 1},
        **changes,
    }


def test_a_study_that_was_taken_over_is_given_back_as_it_was(cast: Cast) -> None:
    sweep = import_study(actor=cast.mate, document=document(), study=STUDY)
    assert study_of(sweep) == STUDY
    rows = list(sweep.trials.order_by("number"))
    states = [TrialState(one.state) for one in rows]
    complete, pruned, failed = TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAILED
    assert states == [complete, pruned, failed, failed, complete], "an infinite objective is nothing to learn from"
    assert (rows[0].value, rows[1].value, rows[1].pruned_at_step) == (0.02, None, 20)
    assert rows[0].parameters == {"train.learning_rate": 0.01, "train.batch_size": 16}
    assert rows[0].reports.count() == 2 and rows[1].reports.count() == 1
    assert all(one.by_hand and one.run is None for one in rows)


def test_the_search_goes_on_behind_the_trials_of_the_study(cast: Cast) -> None:
    sweep = import_study(actor=cast.mate, document=document(sampler="tpe"), study=STUDY)
    Stepper().step_all(timezone.now())
    new = sweep.trials.get(number=5)
    assert (new.state, new.by_hand) == (TrialState.RUNNING, False) and new.run is not None
    best = Sweep.objects.get(pk=sweep.pk).best
    assert best is not None and (best.number, best.value) == (0, 0.02), "an imported trial counts"
    exported = study_of(sweep)
    assert len(exported.trials) == 5, "one that has not ended is not exported"


def test_our_own_trials_are_a_study(cast: Cast) -> None:
    sweep = import_study(actor=cast.mate, document=document(), study=Study(name="empty", directions=["minimize"]))
    now = timezone.now()
    Trial.objects.create(
        sweep=sweep, number=0, state=TrialState.COMPLETE, value=0.5, started_at=now, ended_at=now,
        parameters={"train.learning_rate": 0.5, "train.batch_size": 32},
    )  # fmt: skip
    (one,) = study_of(sweep).trials
    assert (one.values, one.parameters["train.batch_size"]) == ([0.5], 32)
    assert one.distributions["train.learning_rate"] == Distribution(kind="float", low=1e-4, high=0.5, log=True)
    assert with_value(BATCH, 64).values == [16, 32, 64]


@pytest.mark.parametrize(
    ("study", "words"),
    [
        (Study(name="s", directions=["maximize"], trials=[trial(0, 0.1)]), "study.directions"),
        (Study(name="s", directions=["minimize"], trials=[trial(0, 5.0)]), "study.trials.0.parameters"),
    ],
)
def test_a_study_that_does_not_fit_is_refused_and_nothing_is_written(cast: Cast, study: Study, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        import_study(actor=cast.mate, document=document(), study=study)
    assert words in str(caught.value)
    assert not Sweep.objects.exists()
