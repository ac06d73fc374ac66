"""`trainyard import wandb` against a real server, with files that W&B's own client wrote."""

from __future__ import annotations

import json
import random
import shutil
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from runs.models import Run
from runs.records.metrics.models import Media
from tests.points import stored_points
from tests.trainyard.command import Trainyard
from trainyard.doors.gathering import Gathering
from trainyard.doors.protobuf import WRONG
from trainyard.doors.wandb import Translator, WandbFile

pytestmark = pytest.mark.usefixtures("valkey")

SCRIPT = """
import math, sys
import numpy, PIL.Image, wandb

run = wandb.init(project="digits", name="wide", config={"lr": 0.5, "model": {"width": 64}}, tags=["a"], notes="why",
                 group="g", job_type="train")
run.define_metric("val/acc", summary="max")
for step in range(300):
    row = {"loss": 1 / (step + 1), "t": {"x": step}, "never": math.nan,
           "odd": [math.nan, math.inf, -math.inf][step % 3]}
    if step % 100 == 0:
        row |= {"word": "a" if step < 200 else "b", "weights": wandb.Histogram([1.0, 2.0, 2.0], num_bins=2),
                "table": wandb.Table(columns=["k", "v"], data=[["x", step]]),
                "picture": wandb.Image(PIL.Image.new("RGB", (3, 2)), caption="black")}
    run.log(row)
run.log({"val/acc": 0.5}, step=1000)
run.config.update({"late": 1})
run.summary["best"] = 0.25
print("a line of the script")
run.finish(exit_code=int(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What W&B leaves of a run that succeeds and one that fails."""
    above = tmp_path_factory.mktemp("wandb")
    (above / "train.py").write_text(SCRIPT)
    surroundings = {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "HOME": str(above), "PATH": "/usr/bin:/bin"}
    for code in ("0", "3"):
        ended = subprocess.run([sys.executable, "train.py", code], cwd=above, env=surroundings, capture_output=True)
        assert ended.returncode == 0, ended.stderr.decode()
    return above / "wandb"


def imported(trainyard: Trainyard, folder: Path) -> list[dict[str, Any]]:
    ended = trainyard("import", "wandb", str(folder), "--json")
    assert ended.code == 0, ended.err
    items: list[dict[str, Any]] = json.loads(ended.out)["items"]
    return items


def test_runs_come_with_all_that_they_have(folder: Path, trainyard: Trainyard) -> None:
    items = imported(trainyard, folder)
    assert [(item["run"]["status"], item["refused"]) for item in items] == [("SUCCEEDED", {}), ("FAILED", {})]
    run = Run.objects.get(pk=items[0]["run"]["id"])
    assert (run.name, run.notes) == ("wide", "why")
    assert run.config == {"lr": 0.5, "model": {"width": 64}, "late": 1}
    found = by_name(run.pk)
    assert found["loss"] == [(step, 1 / (step + 1)) for step in range(300)]
    assert found["t/x"] == [(step, float(step)) for step in range(300)]
    assert [str(value) for _, value in found["odd"][:3]] == ["nan", "inf", "-inf"]
    assert (found["val/acc"], found["summary/best"]) == ([(1000, 0.5)], [(1000, 0.25)])
    assert {"val/acc", "loss", "t/x", "odd", "never", "summary/best"} == set(found)
    kept = Media.objects.filter(run_id=run.pk)
    assert sorted((one.name, one.step) for one in kept if one.kind == "text") == [("word", 0), ("word", 200)]
    assert {one.name: one.kind for one in kept} == {
        "word": "text", "weights": "histogram", "table": "table", "picture": "image"
    }  # fmt: skip
    assert run.started_at is not None and run.ended_at is not None and run.started_at <= run.ended_at
    logs = trainyard("logs", run.pk)
    assert "a line of the script" in logs.out


def by_name(run: str) -> dict[str, list[tuple[int, float]]]:
    """Steps and values of each series, and that none is there twice."""
    found = {}
    for key, counted in stored_points(run).items():
        assert set(counted.values()) == {1}
        found[key.name] = sorted((step, struct.unpack("<d", struct.pack("<q", value))[0]) for step, _, value in counted)
    return found


def one_run(folder: Path, into: Path) -> Path:
    """Copy the run that succeeded, and return its file."""
    [source] = sorted(folder.glob("offline-run-*"))[:1]
    shutil.copytree(source, into / source.name)
    [path] = (into / source.name).glob("*.wandb")
    return path


def test_a_file_that_grows_is_imported_again_and_nothing_is_doubled(
    folder: Path, trainyard: Trainyard, tmp_path: Path
) -> None:
    path = one_run(folder, tmp_path)
    whole = path.read_bytes()
    for size in (len(whole) // 3, len(whole) // 2, len(whole), len(whole)):
        path.write_bytes(whole[:size])
        [item] = imported(trainyard, tmp_path)
    found = by_name(item["run"]["id"])
    assert found["loss"] == [(step, 1 / (step + 1)) for step in range(300)]
    assert found["summary/best"] == [(1000, 0.25)]
    assert (item["run"]["status"], item["points"], Run.objects.count()) == ("SUCCEEDED", 0, 1)
    assert Media.objects.filter(name="word").count() == 2


def test_a_run_without_an_end_is_lost_until_more_of_it_comes(
    folder: Path, trainyard: Trainyard, tmp_path: Path
) -> None:
    path = one_run(folder, tmp_path)
    path.write_bytes(path.read_bytes()[:-200])
    [item] = imported(trainyard, tmp_path)
    assert (item["run"]["status"], item["points"]) == ("LOST", 1200)


def test_a_newer_version_and_damage_are_said(folder: Path, trainyard: Trainyard, tmp_path: Path) -> None:
    path = one_run(folder, tmp_path)
    whole = bytearray(path.read_bytes())
    whole[40_000] ^= 1
    path.write_bytes(whole)
    [item] = imported(trainyard, tmp_path)
    assert any("is damaged; the rest of its block is left out" in why for why in item["refused"])
    newer = tmp_path / "newer" / path.name
    newer.parent.mkdir()
    newer.write_bytes(whole[:6] + b"\x01" + whole[7:])
    items = imported(trainyard, newer.parent)
    assert [list(item["refused"]) for item in items] == [[f"{newer}: version 1 of W&B's files is not known"]]


def test_a_medium_outside_of_the_run_is_not_read(folder: Path, trainyard: Trainyard, tmp_path: Path) -> None:
    path = one_run(folder, tmp_path)
    [picture] = list((path.parent / "files/media/images").glob("picture_0_*"))
    secret = tmp_path / "secret.png"
    picture.rename(secret)
    picture.symlink_to(secret)
    [item] = imported(trainyard, tmp_path)
    assert [count for why, count in item["refused"].items() if "does not lie beside the file" in why] == [1]
    assert Media.objects.filter(run_id=item["run"]["id"], name="picture").count() == 2


def test_whatever_the_bytes_are_reading_them_ends(folder: Path, tmp_path: Path) -> None:
    path = one_run(folder, tmp_path)
    whole = path.read_bytes()
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    for _ in range(40):
        damaged = bytearray(whole[: dice.randrange(len(whole))])
        for _ in range(dice.randrange(20)):
            if len(damaged) > 8:
                damaged[dice.randrange(7, len(damaged))] = dice.randrange(256)
        path.write_bytes(damaged)
        list(WandbFile(path).records(Gathering(), 0, len(damaged)))


def test_a_body_of_any_bytes_raises_what_is_counted(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    for _ in range(2_000):
        with suppress(*WRONG):
            Translator(Gathering(), tmp_path).take(dice.randbytes(dice.randrange(60)))


def test_a_folder_without_runs_is_said(trainyard: Trainyard, tmp_path: Path) -> None:
    ended = trainyard("import", "wandb", str(tmp_path))
    assert (ended.code, f"no file below {tmp_path} is called run-ID.wandb" in ended.err) == (1, True)
