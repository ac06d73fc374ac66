from __future__ import annotations

from typing import Any

from runs.presenting import run_remarks
from tests.voices import report_of


def said(*ranks: dict[str, Any], **last: float | str) -> list[str]:
    summary = {name.replace("__", "/"): {"last": value} for name, value in last.items()}
    return [one.sentence for one in run_remarks.end_remarks([report_of(ranks=list(ranks))], summary)]


def test_a_clean_end_is_not_remarked_on() -> None:
    assert said({"rank": 0, "exit_code": 0, "exit_hang": False}, train__loss=0.5) == []


def test_an_exit_that_hung_is_said_with_the_scripts_own_exit_code() -> None:
    assert said({"rank": 1, "exit_code": 0, "exit_hang": True}) == [
        "The script of rank 1 was over, with exit code 0, and its process did not exit: it was ended. "
        "The script's exit code counts."
    ]
    both = said({"rank": 1, "exit_code": 0, "exit_hang": True}, {"rank": 0, "exit_code": 3, "exit_hang": True})
    assert both[0].startswith("The scripts of ranks 0 and 1 were over and their processes did not exit")


def test_a_loss_that_is_no_number_is_remarked_on() -> None:
    [sentence] = said(train__loss="NaN", val__loss="Infinity", system__cpu="NaN")
    assert sentence.startswith("The last train/loss is NaN and val/loss is Infinity: the training has diverged;")
