"""``trainyard export tensorboard`` against a real server: TensorBoard's own reader finds what the run holds."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import metadata

from tests.trainyard.command import Trainyard
from tests.up_process import ROOT

pytestmark = pytest.mark.usefixtures("valkey")
EVERYTHING = {"scalars": 0, "images": 0, "histograms": 0, "tensors": 0}
VALUES = [1 / 3, math.nan, math.inf, 1e300, -2.5]
SCRIPT = """
import math, numpy, trainyard
with trainyard.init("wide: ../net", config={"lr": 0.5, "model": {"width": 64}, "on": True, "kind": "ü"}) as run:
    for step, value in enumerate((1 / 3, math.nan, math.inf, 1e300, -2.5)):
        run.log({"loss": value, "-odd": step}, step * 10, time=1_700_000_000.25 + step)
    run.log({"loss": 7.0}, 3, {"folder": "../eval", "rank": "1"})
    run.log({
        "note": trainyard.Text("**bold** ü"), "table": trainyard.Table(["a"], [[1]]),
        "weights": trainyard.Histogram(counts=[1, 0, 3], edges=[-1.0, 0.0, 1.0, 4.0]),
        "picture": [trainyard.Image(numpy.zeros((3, 5, 3), numpy.uint8))] * 2,
        "sound": trainyard.Audio(numpy.zeros(80, numpy.int16), sample_rate=8000),
    }, step=4)
"""


@pytest.fixture
def run_id(tmp_path: Path, trainyard: Trainyard) -> str:
    """A run with all that is written."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRAINYARD_")}
    words = [sys.executable, "-c", SCRIPT]
    subprocess.run(words, cwd=tmp_path, env={**environment, "PYTHONPATH": str(ROOT)}, check=True, timeout=60)
    sent = trainyard("sync", str(tmp_path / "trainyard-spool"), "--json")
    assert sent.code == 0, sent.err
    return str(json.loads(sent.out)["items"][0]["run"]["id"])


def exported(trainyard: Trainyard, folder: Path, run_id: str) -> dict[str, Any]:
    ended = trainyard("export", "tensorboard", str(folder), run_id, "--json")
    assert ended.code == 0, ended.err
    [item] = json.loads(ended.out)["items"]
    return dict(item)


def read(folder: str | Path) -> EventAccumulator:
    accumulator: EventAccumulator = EventAccumulator(str(folder), size_guidance=EVERYTHING).Reload()
    return accumulator


def test_steps_values_times_and_media_are_those_of_the_run(tmp_path: Path, trainyard: Trainyard, run_id: str) -> None:
    for _ in range(2):  # written again it is the same
        item = exported(trainyard, tmp_path / "out", run_id)
    assert (item["points"], item["media"]) == (11, 4)
    assert (item["media of the kind table"], item["media of the kind audio"]) == (1, 1)
    folder = Path(item["folder"])
    assert folder == tmp_path / "out" / f"wide- ..-net-{run_id[:8]}"
    found = read(folder)
    with np.errstate(over="ignore"):
        wanted = [(10 * step, 1_700_000_000.25 + step, np.float32(value)) for step, value in enumerate(VALUES)]
    got = [(one.step, one.wall_time, np.float32(one.value)) for one in found.Scalars("loss")]
    assert str(sorted(got)) == str(wanted)
    assert [one.value for one in found.Scalars("-odd")] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert [(one.step, one.value) for one in read(folder / "eval" / "rank=1").Scalars("loss")] == [(3, 7.0)]
    [histogram] = found.Histograms("weights")
    assert (histogram.step, histogram.histogram_value.bucket_limit, histogram.histogram_value.bucket) == (
        4, [0.0, 1.0, 4.0], [1.0, 0.0, 3.0],
    )  # fmt: skip
    assert (histogram.histogram_value.num, histogram.histogram_value.min) == (4.0, -1.0)
    assert [(one.width, one.height) for tag in ("picture/0", "picture/1") for one in found.Images(tag)] == [(5, 3)] * 2
    assert found.Tensors("note")[0].tensor_proto.string_val == ["**bold** ü".encode()]
    start = found.SummaryMetadata(metadata.SESSION_START_INFO_TAG).plugin_data.content
    values = metadata.parse_session_start_info_plugin_data(start).hparams
    assert values["lr"].number_value == 0.5 and values["model.width"].number_value == 64
    assert values["on"].bool_value is True and values["kind"].string_value == "ü"


def test_what_was_exported_is_imported_as_it_was(tmp_path: Path, trainyard: Trainyard, run_id: str) -> None:
    item = exported(trainyard, tmp_path / "out", run_id)
    again = trainyard("import", "tensorboard", item["folder"], "--json")
    assert again.code == 0, again.err
    came = json.loads(again.out)["items"]
    assert sum(one["points"] for one in came) == 11 and sum(one["media"] for one in came) == 4
    assert not any(one["refused"] for one in came)
    top = next(one["run"]["id"] for one in came if one["points"] == 10)
    assert json.loads(trainyard("metrics", top, "loss", "--json").out)["series"][0]["step"] == [0, 10, 20, 30, 40]


def test_a_run_that_is_not_there_is_named(tmp_path: Path, trainyard: Trainyard) -> None:
    assert trainyard("export", "tensorboard", str(tmp_path), "0" * 32).code == 1
