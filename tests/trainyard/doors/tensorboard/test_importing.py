"""`trainyard import tensorboard` against a real server, with folders that the real writers made."""

from __future__ import annotations

import json
import math
import re
import shlex
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy
import pytest
import tensorboardX
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, types_pb2
from torch.utils.tensorboard import SummaryWriter

from runs.ingest.report import Foreign, store_frames
from runs.models import Run
from runs.records.media import read as media
from runs.records.metrics.models import Media
from tests.points import Points, key_of, rows, stored_points
from tests.trainyard.command import Trainyard
from trainyard.cli.parser import build_parser
from trainyard.doors.tensorboard.event_files import record

pytestmark = [
    pytest.mark.usefixtures("valkey"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:tensorboard.*", "ignore::DeprecationWarning:tensorboardX.*"),
]
DOCS = Path(__file__).parents[4] / "docs"
WRITERS: dict[str, Any] = {"torch": SummaryWriter, "tensorboardX": tensorboardX.SummaryWriter}


def imported(trainyard: Trainyard, folder: Path, *words: str) -> list[dict[str, Any]]:
    ended = trainyard("import", "tensorboard", str(folder), "--json", *words)
    assert ended.code == 0, ended.err
    items: list[dict[str, Any]] = json.loads(ended.out)["items"]
    return items


def expected(folder: Path, run: str) -> Points:
    """The scalars as TensorBoard itself reads them."""
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0}).Reload()
    found: Points = {}
    for tag in accumulator.Tags()["scalars"]:
        columns = zip(*((one.step, one.wall_time, one.value) for one in accumulator.Scalars(tag)), strict=True)
        found[key_of(run, 1, tag, {})] = rows(*map(list, columns))
    return found


def event_file(folder: Path) -> Path:
    [path] = folder.glob("*tfevents*")
    return path


@pytest.mark.parametrize("kind", WRITERS)
def test_each_folder_with_events_is_a_run_with_the_numbers_that_tensorboard_reads(
    kind: str, trainyard: Trainyard, tmp_path: Path
) -> None:
    for name in ("first", "deep/second"):
        with WRITERS[kind](str(tmp_path / name)) as writer:
            for step in range(300):
                writer.add_scalar("train/loss", 1 / (step + 1), step)
                writer.add_scalar("odd", [math.nan, math.inf, -math.inf][step % 3], -step, walltime=1e9 + step)
                writer.add_scalar("large", step, 2**40 + step)
    items = imported(trainyard, tmp_path)
    assert {item["run"]["name"] for item in items} == {"first", "deep/second"}
    for item in items:
        run = Run.objects.get(pk=item["run"]["id"])
        wanted = expected(tmp_path / run.name, run.pk)
        assert len(wanted) == 3 and stored_points(run.pk) == wanted
        assert (item["points"], item["refused"], run.status) == (900, {}, "SUCCEEDED")
        assert run.started_at is not None and run.ended_at is not None and run.started_at < run.ended_at


@pytest.mark.parametrize("kind", WRITERS)
def test_pictures_histograms_texts_sounds_and_hyperparameters_have_their_counterparts(
    kind: str, trainyard: Trainyard, tmp_path: Path
) -> None:
    values = numpy.concatenate([numpy.zeros(10), numpy.linspace(-3, 5, 200)])
    word = "run_name" if kind == "torch" else "name"
    with WRITERS[kind](str(tmp_path / "run")) as writer:
        writer.add_image("picture", numpy.full((3, 4, 5), 200, numpy.uint8), 1, walltime=7.5)
        writer.add_histogram("weights", values, 2)
        writer.add_text("story", "*Once* upon a time", 3)
        if kind == "torch":  # the other needs one more library
            writer.add_audio("speech", torch.zeros(1, 800), 4, sample_rate=8000)
        writer.add_hparams({"lr": 0.25, "depth": 3, "name": "adam", "bias": True}, {"best": 0.5}, **{word: "trial"})
        writer.add_pr_curve("curve", numpy.array([0, 1, 1]), numpy.array([0.1, 0.6, 0.9]), 5)
    items = {item["run"]["name"]: item for item in imported(trainyard, tmp_path)}
    run = items["run"]["run"]["id"]
    kinds = {"picture": "image", "weights": "histogram", "story/text_summary": "text"}
    found = {one["name"]: one["kind"] for one in media.media_list(run)}
    assert found == {**kinds, **({"speech": "audio"} if kind == "torch" else {})}
    picture = Media.objects.get(run_id=run, kind="image")
    assert (picture.step, picture.time, picture.meta["width"], picture.meta["height"]) == (1, 7.5, 5, 4)
    histogram = media.content(Media.objects.get(run_id=run, kind="histogram"))["histogram"]
    assert sum(histogram["counts"]) == values.size and histogram["edges"][0] <= -3 and histogram["edges"][-1] >= 5
    assert media.content(Media.objects.get(run_id=run, kind="text"))["text"] == "*Once* upon a time"
    assert items["run"]["refused"] == {"pr_curves values": 1}
    trial = Run.objects.get(name__endswith="trial")
    assert trial.config == {"lr": 0.25, "depth": 3, "name": "adam", "bias": True}


def test_what_tensorflow_writes_as_tensors_is_read_too(trainyard: Trainyard, tmp_path: Path) -> None:
    numbers = tensor_pb2.TensorProto(dtype=types_pb2.DT_DOUBLE, tensor_content=struct.pack("<d", 0.125))
    texts = tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, string_val=[b"one", b"two"])
    bins = tensor_pb2.TensorProto(dtype=types_pb2.DT_DOUBLE, double_val=[0, 1, 3, 1, 2, 4])
    events = []
    for tag, plugin, tensor in (("loss", "scalars", numbers), ("said", "text", texts), ("w", "histograms", bins)):
        for step in range(2):  # only the first says of which plugin it is
            metadata = (
                summary_pb2.SummaryMetadata()
                if step
                else summary_pb2.SummaryMetadata(plugin_data=summary_pb2.SummaryMetadata.PluginData(plugin_name=plugin))
            )
            value = summary_pb2.Summary.Value(tag=tag, tensor=tensor, metadata=metadata)
            events.append(event_pb2.Event(wall_time=5.0, step=step, summary=summary_pb2.Summary(value=[value])))
    path = tmp_path / "events.out.tfevents.1.host"
    path.write_bytes(b"".join(record(event.SerializeToString()) for event in events))
    [item] = imported(trainyard, tmp_path)
    run = item["run"]["id"]
    assert stored_points(run) == {key_of(run, 1, "loss", {}): rows([0, 1], [5.0, 5.0], [0.125, 0.125])}
    assert [media.content(row)["text"] for row in Media.objects.filter(run_id=run, kind="text")] == ["one\n\ntwo"] * 2
    [_, bins] = Media.objects.filter(run_id=run, kind="histogram")
    assert media.content(bins) == {"histogram": {"edges": [0, 1, 2], "counts": [3, 4]}}


def test_a_second_import_doubles_nothing_and_adds_what_was_written_since(trainyard: Trainyard, tmp_path: Path) -> None:
    with SummaryWriter(str(tmp_path / "runs" / "one")) as writer:
        for step in range(50):
            writer.add_scalar("loss", step, step)
        writer.flush()
        [first] = imported(trainyard, tmp_path / "runs")
        assert imported(trainyard, tmp_path / "runs")[0]["run"]["id"] == first["run"]["id"]
        writer.add_scalar("loss", 50, 50)
        writer.flush()
        file = event_file(tmp_path / "runs" / "one")
        whole = file.read_bytes()
        file.write_bytes(whole[:-3])  # as it looks while it is written
        [torn] = imported(trainyard, tmp_path / "runs")
        assert len(torn["refused"]) == 1 and "torn" in next(iter(torn["refused"]))
        file.write_bytes(whole)
    shutil.move(tmp_path / "runs", tmp_path / "moved")
    [last] = imported(trainyard, tmp_path / "moved")
    assert last["run"]["id"] == first["run"]["id"] and last["refused"] == {}
    assert stored_points(last["run"]["id"]) == expected(tmp_path / "moved" / "one", last["run"]["id"])


def test_an_import_that_was_cut_off_anywhere_goes_on_there(
    trainyard: Trainyard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SummaryWriter(str(tmp_path / "run")) as writer:
        for step in range(40_000):
            writer.add_scalar("loss", step, step)
    monkeypatch.setattr("trainyard.doors.importing.BATCH_BYTES", 100_000)
    calls = []

    def fail_at_the_third(run: Run, data: bytes) -> dict[str, int]:
        calls.append(data)
        if len(calls) == 3:
            raise Foreign("cut off")
        return store_frames(run, data)

    monkeypatch.setattr("runs.api.training.local.store_frames", fail_at_the_third)
    assert trainyard("import", "tensorboard", str(tmp_path)).code == 1
    [run] = Run.objects.all()
    assert run.status == "LOST" and 0 < sum(map(len, stored_points(run.pk).values())) < 40_000
    [item] = imported(trainyard, tmp_path)
    assert item["run"]["status"] == "SUCCEEDED"
    assert stored_points(run.pk) == expected(tmp_path / "run", run.pk)


def test_a_damaged_record_is_said_with_file_and_place_and_the_others_are_taken(
    trainyard: Trainyard, tmp_path: Path
) -> None:
    with SummaryWriter(str(tmp_path)) as writer:
        for step in range(10):
            writer.add_scalar("loss", step, step)
    file = event_file(tmp_path)
    data = bytearray(file.read_bytes())
    size = len(data) - 20
    data[size] ^= 1  # in the body of the last record
    file.write_bytes(data)
    [item] = imported(trainyard, tmp_path)
    [(why, count)] = item["refused"].items()
    assert count == 1 and str(file) in why and "checksum differs" in why
    assert item["points"] == 9
    human = trainyard("import", "tensorboard", str(tmp_path))
    assert human.code == 0 and item["run"]["id"] in human.out


def test_the_commands_of_the_page_are_some() -> None:
    blocks = re.findall(r"```sh\n(.*?)```", (DOCS / "coming_from_tensorboard.md").read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("trainyard ")]
    brought, written = (build_parser().parse_args(shlex.split(line)[1:]) for line in lines)
    assert (brought.source, brought.project) == ("runs", "vision")
    assert (written.folder, written.ids) == ("runs", ["RUN_ID", "OTHER_ID"])


def test_nothing_to_import_is_one_sentence(trainyard: Trainyard, tmp_path: Path) -> None:
    ended = trainyard("import", "tensorboard", str(tmp_path))
    assert ended.code == 1 and "tfevents" in ended.err
    ended = trainyard("import", "tensorboard", str(tmp_path / "missing"))
    assert ended.code == 2 and "missing" in ended.err
