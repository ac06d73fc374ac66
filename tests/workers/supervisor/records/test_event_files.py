"""Event files that ranks write become records of the run, while they are written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
from msgspec.structs import replace
from torch.utils.tensorboard import SummaryWriter

from tests.frames import frames
from tests.trainyard.spooled import points
from tests.workers.stream import ORDER
from trainyard.contract.records import Begin
from trainyard.sdk.run import Run
from trainyard.spooling.frames import Frame
from trainyard.spooling.writer import SpoolWriter
from workers.attempt.folder import AttemptFolder
from workers.supervisor.records.collector import EventFiles

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:tensorboard.*")


class Following:
    """An attempt's folder, and what of its event files was written into the supervisor's spool."""

    def __init__(self, path: Path) -> None:
        self.folder = AttemptFolder(path)
        self.folder.create(replace(ORDER, node_name="one", first_rank=0))

    def begin(self, **changes: Any) -> None:
        order = self.folder.order()
        assert order is not None
        self.files = EventFiles(replace(order, **changes), self.folder)
        self.spool = SpoolWriter(self.folder.spool, begin=Begin(role="supervisor"))

    def rounds(self) -> None:
        self.files.follow(self.spool)  # reads
        self.files.follow(self.spool)  # writes

    @property
    def frames(self) -> list[Frame]:
        return list(frames(self.spool.path.read_bytes()))

    @property
    def points(self) -> dict[Any, list[tuple[int, float]]]:
        return points(self.frames)


@pytest.fixture
def following(tmp_path: Path) -> Iterator[Following]:
    following = Following(tmp_path / "a")
    yield following
    following.spool.close()


def write(folder: Path, tag: str, steps: range) -> None:
    with SummaryWriter(str(folder)) as writer:
        for step in steps:
            writer.add_scalar(tag, step, step)


def test_numbers_media_and_hyperparameters_come_while_the_file_grows(following: Following) -> None:
    following.begin()
    with SummaryWriter(str(following.folder.code / "runs" / "today")) as writer:
        writer.add_scalar("loss", 0.5, 1)
        writer.flush()
        following.rounds()
        assert following.points == {("loss", ()): [(1, 0.5)]}
        writer.add_scalar("loss", 0.25, 2)
        writer.add_histogram("weights", numpy.arange(10.0), 2)
        writer.add_hparams({"lr": 0.1}, {"best": 1.0}, run_name="trial")
        writer.flush()
        following.rounds()
    following.files.finish(following.spool)
    assert following.points == {("loss", ()): [(1, 0.5), (2, 0.25)], ("best", (("folder", "trial"),)): [(0, 1.0)]}
    others = [frame.payload for frame in following.frames if frame.kind in ("media", "description")]
    assert [one.get("config") or one["name"] for one in others] == ["weights", {"lr": 0.1}]


def test_what_the_sdk_logs_under_the_same_name_is_not_doubled(following: Following) -> None:
    following.begin()
    with SummaryWriter(str(following.folder.output)) as writer:
        writer.add_scalar("loss", 0.5, 1)
        writer.add_scalar("tensorboard/alone", 2.0, 1)
        writer.flush()
        following.files.follow(following.spool)  # read, and not written yet
        run = Run(None, following.folder.spool)
        run.log({"loss": 0.5, "sdk/alone": 1.0}, step=1)
        run.flush()
        following.files.follow(following.spool)
        writer.add_scalar("loss", 0.25, 2)
    following.files.finish(following.spool)
    run.finish()
    assert following.points == {("tensorboard/alone", ()): [(1, 2.0)]}


def test_files_that_were_there_before_are_not_of_this_attempt(following: Following) -> None:
    write(following.folder.code / "before", "old", range(3))
    following.begin()
    write(following.folder.code / "now", "new", range(2))
    following.files.finish(following.spool)
    assert following.points == {("new", ()): [(0, 0.0), (1, 1.0)]}


def test_each_further_folder_and_node_has_a_label(following: Following) -> None:
    following.begin(first_rank=2, node_name="two")
    write(following.folder.code / "logs", "loss", range(1))
    following.rounds()
    write(following.folder.code / "logs" / "val", "loss", range(1))
    write(following.folder.output / "other", "loss", range(1))
    following.files.finish(following.spool)
    node = ("node", "two")
    assert {labels for _, labels in following.points} == {
        (node,), (("folder", "val"), node), (("folder", "other"), node),
    }  # fmt: skip


def test_a_link_out_of_the_folder_is_not_followed(following: Following, tmp_path: Path) -> None:
    write(tmp_path / "secret", "loss", range(3))
    following.begin()
    [file] = (tmp_path / "secret").iterdir()
    (following.folder.code / "link.tfevents.1").symlink_to(file)
    (following.folder.code / "folder").symlink_to(tmp_path / "secret")
    following.files.finish(following.spool)
    assert following.points == {}


def test_a_file_that_is_no_event_file_stops_nothing(following: Following) -> None:
    following.begin()
    (following.folder.code / "a.tfevents.1").write_bytes(b"not one of them" * 1000)
    write(following.folder.code / "good", "loss", range(1))
    following.files.finish(following.spool)
    assert list(following.points) == [("loss", (("folder", "good"),))]
