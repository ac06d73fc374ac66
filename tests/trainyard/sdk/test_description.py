"""What a script states about its run: each kind of configuration, conflicts, and how it comes into the spool."""

from __future__ import annotations

import argparse
import enum
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
import pytest

import trainyard
from tests.trainyard.spooled import eventually, points, producers
from trainyard.contract.records import MAX_CONFIG_BYTES, Description, MetricRule
from trainyard.sdk import process_run
from trainyard.sdk.description import Config, ConfigConflict


def descriptions(spool: Path) -> list[Description]:
    return [one for frames in producers(spool) for frame in frames if isinstance(one := frame.record(), Description)]


@dataclass
class Model:
    width: int = 64
    layers: list[int] = field(default_factory=lambda: [1, 2])


class Size(enum.Enum):
    SMALL = "small"


def config_of(given: Any) -> Any:
    config = Config(lambda: None)
    config.update(given)
    return config.as_dict()


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"lr": 0.1, "model": {"width": 8}}, {"lr": 0.1, "model": {"width": 8}}),
        (argparse.Namespace(lr=1, name="x", flag=True), {"lr": 1, "name": "x", "flag": True}),
        (Model(), {"width": 64, "layers": [1, 2]}),
        ({"model": Model(), "size": Size.SMALL}, {"model": {"width": 64, "layers": [1, 2]}, "size": "small"}),
        ({"a.b": 1, "a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
        ({"x": numpy.float32(0.5), "n": numpy.int64(3)}, {"x": 0.5, "n": 3}),
        ({"bad": math.nan, "path": Path("/data"), "none": None}, {"bad": "nan", "path": "/data", "none": None}),
        ({1: (1, 2), "many": {3}}, {"1": [1, 2], "many": [3]}),
        ({"large": 2**70, "broken": "\ud800"}, {"large": str(2**70), "broken": "?"}),
    ],
)  # fmt: skip
def test_a_configuration_is_taken_as_json_has_it(given: Any, kept: Any) -> None:
    assert config_of(given) == kept


def test_a_configuration_that_holds_itself_ends_somewhere() -> None:
    loop: dict[str, Any] = {}
    loop["again"] = loop
    assert "again" in config_of(loop)


def test_keys_are_attributes_and_paths() -> None:
    config = Config(lambda: None)
    config.lr = 0.1
    config["model.width"] = 8
    assert (config.lr, config.model, config["model.width"], "lr" in config) == (0.1, {"width": 8}, 8, True)
    del config["model.width"]
    assert config.as_dict() == {"lr": 0.1, "model": {}}
    with pytest.raises(AttributeError, match="no 'depth'; it has lr, model"):
        _ = config.depth


def test_another_value_of_a_key_is_refused_by_name_and_nothing_of_the_call_is_taken() -> None:
    config = Config(lambda: None)
    config.update({"lr": 0.1, "model": {"width": 8}})
    config.update({"lr": 0.1})
    with pytest.raises(ConfigConflict, match=r"config\.model\.width is 8 and cannot become 9"):
        config.update({"depth": 2, "model": {"width": 9}})
    assert "depth" not in config
    config.update({"model": {"width": 9}}, allow_change=True)
    assert config["model.width"] == 9
    with pytest.raises(TypeError, match="config is a int"):
        config.update(5)


def test_names_that_collide_once_they_are_nested_are_refused() -> None:
    with pytest.raises(ConfigConflict, match="a"):
        config_of({"a": 1, "a.b": 2})


def test_all_that_is_stated_lies_in_the_spool_and_the_last_record_holds_everything(spool: Path) -> None:
    run = trainyard.init(
        "demo", config={"lr": 0.1}, tags=["a", "b", "a"], notes="why", group="g", job_type="train"
    )  # fmt: skip
    run.config.width = 8
    run.define_metric("val/loss", step_metric="epoch", summary="min", goal="minimize")
    run.finish()
    last = descriptions(spool)[-1]
    assert last == Description(
        config={"lr": 0.1, "width": 8}, tags=["a", "b"], notes="why", group="g", job_type="train",
        metrics={"val/loss": MetricRule("epoch", "min", "min")},
    )  # fmt: skip


def test_a_configuration_arrives_while_nothing_is_logged(spool: Path) -> None:
    run = trainyard.init()
    run.config["late"] = 1
    eventually(lambda: bool(descriptions(spool)) and descriptions(spool)[-1].config == {"late": 1})


def test_a_run_that_states_nothing_writes_nothing_of_it(spool: Path) -> None:
    trainyard.init().finish()
    assert descriptions(spool) == []


def test_a_rank_that_is_not_the_first_keeps_its_configuration_to_itself(
    spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    trainyard.init(config={"lr": 0.1}).finish()
    assert descriptions(spool) == []


def test_a_configuration_that_no_record_can_hold_costs_a_warning(spool: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = trainyard.init(tags=["kept"], config={f"key{number}": "x" * 90_000 for number in range(12)})
    run.finish()
    assert descriptions(spool)[-1] == Description(tags=["kept"])
    assert f"{MAX_CONFIG_BYTES:,} at most" in caplog.text and run.num_bad_values == 1


def test_what_is_too_long_is_cut_and_what_is_no_text_is_replaced_for_the_server_would_take_nothing(
    spool: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tags = ["broken \ud800", *(f"tag {number}" for number in range(60))]
    run = trainyard.init(config={"lr": 1}, tags=tags, notes="x" * 30_000, group="g" * 600)
    for number in range(2000):
        run.define_metric(f"\ud800 metric {number}", step_metric="epoch")
    run.log({"x": 1})
    run.finish()
    last = descriptions(spool)[-1]  # read by the contract, as the server does
    assert (last.config, len(last.tags), len(last.notes), len(last.group)) == ({"lr": 1}, 50, 20_000, 500)
    assert last.tags[0] == "broken ?" and last.metrics == {}
    assert points(producers(spool)[0]) == {("x", ()): [(0, 1.0)]}
    assert all(word in caplog.text for word in ("'tags'", "'notes'", "'group'", "'define_metric'"))


def test_a_configuration_may_change_while_it_is_written(spool: Path) -> None:
    run = trainyard.init()
    for number in range(3000):
        run.config[f"key.{number}"] = number
        run.log({"x": 1.0}, step=number)
    run.finish()
    assert len(descriptions(spool)[-1].config["key"]) == 3000
    assert len(points(producers(spool)[0])["x", ()]) == 3000


@pytest.mark.parametrize(
    ("words", "sentence"),
    [({"summary": "median"}, "summary='median' is none of last"), ({"goal": "up"}, "goal='up' is neither")],
)
def test_define_metric_refuses_words_that_mean_nothing(spool: Path, words: dict[str, str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        trainyard.init().define_metric("x", **words)


def test_tags_are_not_one_text(spool: Path) -> None:
    with pytest.raises(TypeError, match="tags='a' is a text"):
        trainyard.init(tags="a")


# How `log` takes what other trackers take.


def test_dictionaries_inside_are_flattened_and_texts_are_kept_when_they_change(spool: Path) -> None:
    run = trainyard.init()
    for step, phase in enumerate(["warm", "warm", "cool"]):
        run.log({"train": {"loss": step, "phase": phase}}, step=step)
    run.finish()
    [frames] = producers(spool)
    assert points(frames)["train/loss", ()] == [(0, 0.0), (1, 1.0), (2, 2.0)]
    texts = [(frame.payload["step"], frame.payload["data"]) for frame in frames if frame.kind == "media"]
    assert texts == [(0, b"warm"), (2, b"cool")]


def test_what_is_not_committed_comes_with_the_next_call_and_at_the_end(spool: Path) -> None:
    run = trainyard.init()
    run.log({"a": 1}, commit=False)
    run.log({"b": 2})
    run.log({"c": 3}, commit=False)
    run.finish()
    [frames] = producers(spool)
    assert points(frames) == {("a", ()): [(0, 1.0)], ("b", ()): [(0, 2.0)], ("c", ()): [(1, 3.0)]}


# How a run ends.


def reasons(folder: Path) -> list[str]:
    return [frames[-1].payload["reason"] for frames in producers(folder)]


def test_a_with_statement_ends_the_run_as_its_body_ended(spool: Path) -> None:
    with pytest.raises(KeyError), trainyard.init("fails") as run:
        run.log({"x": 1})
        raise KeyError("lost")
    with trainyard.init("works"):
        pass
    assert sorted(reasons(spool)) == ["error: KeyError: 'lost'", "finish"]


def test_finish_takes_the_exit_code(spool: Path) -> None:
    trainyard.init()
    trainyard.finish(3)
    assert reasons(spool) == ["error: exit code 3"]


# The module's own functions.


def test_the_module_logs_into_the_newest_run(spool: Path) -> None:
    run = trainyard.init(config={"lr": 1})
    trainyard.log({"x": 1}, step=5)
    assert trainyard.run is run and trainyard.config.lr == 1
    trainyard.finish()
    assert points(producers(spool)[0]) == {("x", ()): [(5, 1.0)]}


def test_the_module_says_that_there_is_no_run_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_run, "_run", None)
    with pytest.raises(RuntimeError, match=r"call trainyard\.init\(\) first"):
        trainyard.log({"x": 1})
    trainyard.finish()  # nothing to end


def test_a_disabled_run_takes_everything_and_writes_nothing(tmp_path: Path) -> None:
    run = trainyard.init(folder=tmp_path, mode="disabled", config={"lr": 1})
    run.log({"x": 1, "nested": {"y": "text"}})
    run.define_metric("x", goal="max")
    run.note({"state": "saved"})
    assert run.flush()
    run.finish()
    assert list(tmp_path.iterdir()) == [] and run.config.lr == 1


def test_a_mode_that_there_is_not_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mode='on' is none of online, offline, disabled"):
        trainyard.init(folder=tmp_path, mode="on")  # type: ignore[arg-type]


def test_the_summary_is_what_was_stated_and_else_the_last_of_each_series(spool: Path) -> None:
    run = trainyard.init()
    for step, loss in enumerate([3.0, 1.0, 2.0]):
        run.log({"loss": loss}, step=10 * step)
    assert (run.summary["loss"], dict(run.summary)) == (2.0, {"loss": 2.0})
    run.summary.update({"loss": 1.0, "at": {"step": 10}})
    assert dict(run.summary) == {"loss": 1.0, "at/step": 10}
    with pytest.raises(KeyError, match="accuracy"):
        run.summary["accuracy"]
    run.finish()
    found = points(producers(spool)[0])
    assert found["loss", ()] == [(0, 3.0), (10, 1.0), (20, 2.0)]
    assert (found["summary/loss", ()], found["summary/at/step", ()]) == ([(20, 1.0)], [(20, 10.0)])
