"""Media in the SDK: what was logged is in the spool to the byte, under its name, step and labels."""

from __future__ import annotations

import inspect
import re
import time
from array import array
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

import trainyard
from runs.ingest.validation.records import incoming
from tests.trainyard.media_records import frames, media
from tests.trainyard.picture_files import GIF, JPEG, decoded
from tests.trainyard.spooled import eventually

DOCS = Path(__file__).parents[3] / "docs" / "sdk_media.md"


def test_media_are_logged_beside_numbers_in_one_call(spool: Path) -> None:
    run = trainyard.init()
    picture = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    run.log(
        {
            "train/loss": 0.5,
            "samples": trainyard.Image(picture, caption="a cat"),
            "weights": trainyard.Histogram([1.0, 2.0, 2.0, 4.0], bins=3),
            "story": trainyard.Text("# Once", format="markdown"),
            "confusion": trainyard.Table(["a", "b"], [(1, "x"), (None, True)]),
        },
        step=7,
        labels={"split": "val"},
    )
    run.finish()
    found = {payload["name"]: payload for payload in media(spool)}
    assert list(found) == ["samples", "weights", "story", "confusion"]
    assert all(payload["labels"] == {"split": "val"} and payload["step"] == 7 for payload in found.values())
    assert abs(found["story"]["at"] - time.time()) < 60
    assert found["samples"]["meta"] == {"caption": "a cat", "width": 3, "height": 2, "format": "png"}
    assert (decoded(found["samples"]["data"]) == picture).all()
    assert found["weights"]["meta"] == {"bins": 3}
    assert array("d", found["weights"]["data"]).tolist() == [1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 1.0]
    assert found["story"]["data"] == b"# Once"
    assert found["story"]["meta"] == {"chars": 6, "format": "markdown"}
    assert found["confusion"]["meta"] == {"columns": ["a", "b"], "rows": 2}
    assert msgpack.unpackb(found["confusion"]["data"]) == [[1, "x"], [None, True]]
    [points] = [frame.payload for frame in frames(spool) if frame.kind == "points"]
    assert points["g"][0][1] == ["train/loss"]
    assert (run.num_bad_values, run.num_lost_points) == (0, 0)


def test_each_kind_and_all_that_it_takes_is_documented() -> None:
    rows = dict(re.findall(r"^\| `(\w+)\(.*?\)` \| (.*) \|$", DOCS.read_text(), re.MULTILINE))
    others = {"Run", "Sweep", "finish", "init", "log", "sweep", "__version__"}
    kinds = {name: getattr(trainyard, name) for name in trainyard.__all__ if name not in others}
    for name, kind in kinds.items():
        said = DOCS.read_text()
        assert all(parameter in said for parameter in inspect.signature(kind).parameters), name
    assert rows.keys() >= kinds.keys()


def test_media_arrive_while_the_training_goes_on_and_count_steps_by_themselves(spool: Path) -> None:
    run = trainyard.init()
    for step in range(3):
        run.log({"story": trainyard.Text("x")})
        eventually(lambda step=step: len(media(spool)) == step + 1)  # type: ignore[misc]
    assert [payload["step"] for payload in media(spool)] == [0, 1, 2]


def test_a_list_keeps_the_name_and_numbers_its_items(spool: Path) -> None:
    run = trainyard.init()
    run.log({"samples": [trainyard.Image(GIF), trainyard.Image(JPEG)]}, step=1, labels={"split": "val"})
    run.finish()
    assert [(payload["name"], payload["labels"], payload["meta"]["format"]) for payload in media(spool)] == [
        ("samples", {"split": "val", "index": "0"}, "gif"),
        ("samples", {"split": "val", "index": "1"}, "jpeg"),
    ]


def test_what_the_script_changes_after_the_call_is_not_logged(spool: Path) -> None:
    picture, values, rows = np.zeros((2, 2), np.uint8), np.zeros(4), [[1]]
    run = trainyard.init()
    things = [trainyard.Image(picture), trainyard.Histogram(values), trainyard.Table(["a"], rows)]
    picture[:], values[:], rows[0][0] = 9, 9, 9
    run.log({"image": things[0], "histogram": things[1], "table": things[2]}, step=1)
    run.finish()
    image, histogram, table = media(spool)
    assert (decoded(image["data"]) == 0).all()
    assert array("d", histogram["data"])[0] == -0.5
    assert msgpack.unpackb(table["data"]) == [[1]]


@pytest.mark.parametrize("name", ["", "x" * 501, 3, "\ud800"], ids=ascii)
def test_a_name_that_is_none_is_refused(name: Any, spool: Path) -> None:
    run = trainyard.init()
    run.log({name: trainyard.Text("x")}, step=1)
    run.finish()
    assert media(spool) == [] and run.num_bad_values == 1


def test_a_list_with_something_else_in_it_is_no_list_of_media(spool: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = trainyard.init()
    run.log({"mixed": [trainyard.Text("x"), 5], "empty": []}, step=1)
    run.log({"long": [trainyard.Text("x")] * 101}, step=1)
    run.finish()
    assert len(media(spool)) == 100
    assert run.num_bad_values == 3


def test_no_more_labels_are_sent_than_a_server_takes(spool: Path) -> None:
    run = trainyard.init()
    labels = {f"label {number}": "x" for number in range(40)}
    run.log({"loss": 0.5, "story": [trainyard.Text("x")], "one": trainyard.Text("x")}, step=1, labels=labels)
    run.finish()
    assert [len(payload["labels"]) for payload in media(spool)] == [32, 32]
    assert media(spool)[0]["labels"]["index"] == "0"
    assert not any(item.problem for item in incoming(b"".join(frame.raw for frame in frames(spool))))
    assert run.num_bad_values == 1


def test_after_the_end_nothing_is_logged(spool: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = trainyard.init()
    run.finish()
    run.log({"story": trainyard.Text("x")}, step=1)
    assert media(spool) == [] and run.num_lost_points == 1
    assert "after finish()" in caplog.text
