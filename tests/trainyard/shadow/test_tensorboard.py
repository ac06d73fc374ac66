"""What PyTorch's and tensorboardX's writers write, beside what TensorBoard's own reader finds in the files."""

from __future__ import annotations

from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.trainyard.shadow.shadowed import RANDOM, exact, shadowed

CALLS = (
    RANDOM
    + """
import warnings; warnings.simplefilter("ignore")
if sys.argv[3] == "torch":
    from torch.utils.tensorboard import SummaryWriter
else:
    from tensorboardX import SummaryWriter
writer = SummaryWriter("runs/here")
for _ in range(calls):
    how, step = chance.random(), chance.choice([None, chance.randrange(0, 10**9), 2**62, 5])
    if how < 0.95:
        writer.add_scalar(chance.choice(names()), chance.choice([0.1, 1, 3e38, math.nan, math.inf, -1e-30]) , step)
    else:
        writer.add_scalars("both", {"a": chance.random(), "b": 2}, step)
writer.close()
"""
)

MEDIA = """
import numpy
from torch.utils.tensorboard import SummaryWriter

with SummaryWriter("runs/here") as writer:
    writer.add_scalar("loss", 0.5, 1)
    writer.add_text("note", "**bold**", 2)
    writer.add_histogram("weights", numpy.arange(10.0), 3)
    writer.add_image("picture", numpy.zeros((3, 4, 4)), 4)
    writer.add_hparams({"lr": 0.5, "kind": "adam"}, {"best": 1.0}, run_name=".")
    writer.add_pr_curve("curve", numpy.array([0, 1]), numpy.array([0.1, 0.9]), 5)
"""

TRIALS = """
from torch.utils.tensorboard import SummaryWriter

with SummaryWriter("runs") as writer:
    for trial, lr in enumerate([0.1, 0.2, 0.3]):
        writer.add_hparams({"lr": lr, "kind": "adam"}, {"best": lr}, run_name=f"trial.{trial}")
"""


def kept_in_files(folder: Path) -> dict[str, list[tuple[int, str]]]:
    found: dict[str, list[tuple[int, str]]] = {}
    for place in {path.parent for path in folder.rglob("*tfevents*")}:
        accumulator = EventAccumulator(str(place), size_guidance={"scalars": 0})
        accumulator.Reload()
        label = place.relative_to(folder).as_posix()
        for tag in accumulator.Tags()["scalars"]:
            name = tag if label == "." else f"{tag}|{label}"
            found[name] = sorted((one.step, one.value.hex()) for one in accumulator.Scalars(tag))
    return found


@pytest.mark.parametrize("writer", ["torch", "tensorboardX"])
def test_random_calls_are_to_the_bit_what_the_event_files_hold(tmp_path: Path, writer: str) -> None:
    done = shadowed(tmp_path, CALLS, "20261126", "2000", writer)
    assert done.code == 0, done.err
    assert exact(done.points()) == kept_in_files(tmp_path / "runs/here")
    assert done.reason == "finish"


def test_texts_images_histograms_and_hyperparameters_come_too_and_the_rest_is_named(tmp_path: Path) -> None:
    done = shadowed(tmp_path, MEDIA)
    assert done.code == 0, done.err
    assert {one["name"]: (one["kind"], one["step"]) for one in done.payloads("media")} == {
        "note/text_summary": ("text", 2), "weights": ("histogram", 3), "picture": ("image", 4),
    }  # fmt: skip
    assert done.payloads("description")[-1]["config"] == {"lr": 0.5, "kind": "adam"}
    assert done.points()["loss", ()] == [(1, 0.5)]
    assert done.err.count("pr_curves values: not mirrored") == 1


def test_hyperparameters_of_several_folders_stand_beside_each_other(tmp_path: Path) -> None:
    done = shadowed(tmp_path, TRIALS)
    assert done.code == 0, done.err
    assert done.payloads("description")[-1]["config"] == {
        "lr": 0.1, "kind": "adam",
        "trial_1": {"lr": 0.2, "kind": "adam"}, "trial_2": {"lr": 0.3, "kind": "adam"},
    }  # fmt: skip


@pytest.mark.parametrize("writer", ["torch", "tensorboardX"])
def test_only_writes_no_event_file(tmp_path: Path, writer: str) -> None:
    done = shadowed(tmp_path, CALLS, "3", "200", writer, options=("--only",))
    assert done.code == 0, done.err
    assert not list(tmp_path.rglob("*tfevents*"))
    assert sum(map(len, done.points().values())) >= 200


def test_in_a_rank_the_node_reads_the_files_and_nothing_comes_twice(tmp_path: Path) -> None:
    spool = {"TRAINYARD_SPOOL": str(tmp_path / "spool")}
    done = shadowed(tmp_path, CALLS, "3", "50", "torch", **spool)
    assert done.code == 0 and not (tmp_path / "spool").exists() and not done.spools, done.err
    done = shadowed(tmp_path, CALLS, "3", "50", "torch", options=("--only",), **spool)
    assert done.code == 0 and (tmp_path / "spool").exists(), "there is no file to read"
