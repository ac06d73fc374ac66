"""`trainyard datasets` and `dataset`: data by name, from adding it to forgetting it."""

from __future__ import annotations

import json

import pytest
from django.utils import timezone

from runs.models import Dataset
from tests.cast import Cast
from tests.datasets import TABLE
from tests.trainyard.command import Trainyard

pytestmark = pytest.mark.usefixtures("valkey")


def test_datasets_are_added_listed_shown_checked_and_deleted(trainyard: Trainyard, cast: Cast) -> None:
    assert "trainyard dataset add" in trainyard("datasets").err
    made = trainyard("dataset", "add", "trees", "--source", "csv", "--location", "/data/trees.csv", "--target", "kind")
    assert made.code == 0, made.err
    Dataset.objects.update(state="ready", facts=TABLE, size_bytes=2_048, digest="ab" * 32)
    titles, row = (line.split() for line in trainyard("datasets").out.splitlines())
    assert titles[:4] == ["name", "source", "state", "rows"] and row[:4] == ["trees", "csv", "ready", "4"]
    shown = trainyard("dataset", "show", "trees").out
    assert "for        tabular in project default" in shown and "target     kind" in shown
    assert "oak" in shown and "height" in shown
    document = json.loads(trainyard("dataset", "show", made.out.strip(), "--json").out)
    assert document["facts"]["num_rows"] == 4
    gone = trainyard("dataset", "delete", "trees")
    assert gone.code == 0 and not Dataset.objects.exists()


def test_a_dataset_that_is_wrong_or_not_there_is_one_sentence(trainyard: Trainyard, cast: Cast) -> None:
    wrong = trainyard("dataset", "add", "trees", "--source", "csv", "--location", "trees.csv")
    assert wrong.code == 2 and wrong.err.startswith("location: must be an absolute path")
    assert trainyard("dataset", "show", "trees").err == "There is no dataset 'trees' that you can see.\n"


def test_whoever_waits_for_a_dataset_learns_what_is_wrong_with_it(
    trainyard: Trainyard, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(_: float) -> None:
        Dataset.objects.update(state="failed", problem="There is no file /data/trees.csv.", checked_at=timezone.now())

    monkeypatch.setattr("trainyard.cli.datasets.time.sleep", look)
    ended = trainyard("dataset", "add", "trees", "--source", "csv", "--location", "/data/trees.csv", "--wait")
    assert ended.code == 1 and "failed: There is no file /data/trees.csv." in ended.err
    assert trainyard("dataset", "check", "trees").code == 1
