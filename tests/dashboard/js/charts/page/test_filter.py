"""Which metrics fit what somebody typed."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.dashboard.js.conftest import Ask

NAMES = ["train/loss", "val/loss", "train/accuracy", "system/gpu.percent", "Ünïcode/损失", "a" * 40 + "!"]
NEW = "const filter = new Filter('http://modules.invalid/charts/page/filter_worker.js')"


@pytest.fixture
def fitting(ask_page: Ask) -> Any:
    """``fitting("loss|acc")`` -> (names, note)."""

    def ask_it(text: str) -> tuple[list[str], str]:
        call = f"async ({{Filter}}, [text, names]) => {{ {NEW}; return filter.ask(text, names) }}"
        found = ask_page("charts/page/filter.js", call, [text, NAMES])
        return found["fitting"], found["note"]

    return ask_it


def test_nothing_typed_fits_all(fitting: Any) -> None:
    assert fitting("  ") == (NAMES, "")


def test_plain_words_are_looked_for_anywhere(fitting: Any) -> None:
    assert fitting("LOSS") == (["train/loss", "val/loss"], "")
    assert fitting("损失") == (["Ünïcode/损失"], "")
    assert fitting("nothing of it") == ([], "")


def test_a_regular_expression_is_tried_on_each_name(fitting: Any) -> None:
    assert fitting("^train/(loss|acc)") == (["train/loss", "train/accuracy"], "")
    assert fitting("gpu.PER") == (["system/gpu.percent"], "")


def test_a_broken_one_is_taken_as_plain_words_and_said_to_be(fitting: Any) -> None:
    names, note = fitting("loss(")
    assert names == [] and "no regular expression" in note


def test_one_that_explodes_is_ended_and_said_to_be_too_slow(fitting: Any) -> None:
    start = time.monotonic()
    names, note = fitting("^(a+)+$")
    assert time.monotonic() - start < 5
    assert names == NAMES and "too slow" in note


def test_after_one_that_explodes_the_next_is_answered(ask_page: Ask) -> None:
    found = ask_page(
        "charts/page/filter.js",
        f"async ({{Filter}}, names) => {{ {NEW}; const bad = filter.ask('^(a+)+$', names);"
        " await new Promise((go) => setTimeout(go, 40));"
        " return [await filter.ask('lo.s', names), await bad, await filter.ask('^val', names)] }",
        NAMES,
    )
    assert [one and one["fitting"] for one in found] == [["train/loss", "val/loss"], None, ["val/loss"]]


def test_a_question_leaves_nothing_behind_for_the_next_one(ask_page: Ask) -> None:
    count = """async ({Filter}, names) => {
        const { addEventListener } = Worker.prototype;
        let num = 0;
        Worker.prototype.addEventListener = function (...all) { num += 1; return addEventListener.apply(this, all); };
        const filter = new Filter('http://modules.invalid/charts/page/filter_worker.js');
        const found = [];
        for (let at = 0; at < 5; at += 1) found.push((await filter.ask("^train", names)).fitting.length);
        Worker.prototype.addEventListener = addEventListener;
        filter.close();
        return [found, num];
    }"""
    assert ask_page("charts/page/filter.js", count, NAMES) == [[2] * 5, 1], "one listener: for the worker's start"
