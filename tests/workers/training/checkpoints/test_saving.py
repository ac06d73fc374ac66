"""Where a save cannot be: a full disk, a folder that is not shared, a rank that does not deliver."""

from __future__ import annotations

import os
import resource
import shutil
import signal
from collections.abc import Collection
from functools import partial
from pathlib import Path

import pytest

from tests.disks import disk_of_1_mb, fill
from tests.workers.training.checkpoints.yard import Yard, after, states
from tests.workers.training.ranks import notes
from workers.training.checkpoints.parts import PartMissing, refuse_part, wait_for_parts

LARGE = {"width": 32}  # 0.4 MB a checkpoint


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path / "checkpoints")


def limit_the_size_of_files(ranks: Collection[int]) -> None:
    """As a quota does: what is written beyond is refused. Only once the data lies in the cache, which is larger."""
    from workers.training import main

    read_store = main.read_store

    def limited(environment):  # type: ignore[no-untyped-def]
        import torch.distributed as dist

        if dist.get_rank() in ranks:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        return read_store(environment)

    main.read_store = limited


def give_rank_1_a_folder_of_its_own() -> None:
    from workers.training import main

    read_store = main.read_store

    def own(environment):  # type: ignore[no-untyped-def]
        import torch.distributed as dist

        folder = environment["TRAINYARD_CHECKPOINTS"] + ("-other" if dist.get_rank() == 1 else "")
        return read_store({**environment, "TRAINYARD_CHECKPOINTS": folder})

    main.read_store = own
    shorten_the_waiting()


def shorten_the_waiting() -> None:
    from workers.training import group as process_group
    from workers.training.checkpoints import saving

    process_group.PROBE_TIMEOUT_S = 0.2
    saving.PARTS_TIMEOUT_S = 0.3


def let_rank_1_write_nothing() -> None:
    import torch.distributed as dist

    from workers.training.checkpoints import saving

    write_part = saving.write_part
    saving.write_part = lambda *arguments: None if dist.get_rank() == 1 else write_part(*arguments)
    shorten_the_waiting()


def test_a_full_disk_costs_the_checkpoint_and_not_the_training(yard: Yard) -> None:
    with disk_of_1_mb(yard.folder):
        filler = fill(yard.folder)
        filler.write_bytes(bytes(300_000))
        points = yard.train(2, steps=6, model=LARGE, checkpoint={"every_steps": 2})[0]
        assert list(after(points, "train/loss", 0)) == [1, 2, 3, 4, 5, 6]
        assert states(points)[0] == ("saved", 2)
        off = [note for note in notes(points) if note["state"] == "off"]
        assert [note["step"] for note in off] == [4, 6]
        assert all("No space left on device" in note["why"] for note in off)
        # What was whole is untouched, and the room of what was begun is free again.
        assert yard.names() == ["filler", "step-2.fence-1"]
        filler.unlink()
        again = yard.train(2, steps=8, model=LARGE, checkpoint={"every_steps": 2, "keep": 1})[0]
        assert states(again)[0] == ("restored", 2)


def test_rank_0_need_not_wait_for_a_rank_that_has_no_room_to_say_why(yard: Yard) -> None:
    with disk_of_1_mb(yard.folder):
        folder = yard.folder / "step-2"
        folder.mkdir()
        fill(yard.folder)
        refuse_part(folder, 1, "No space left on device", 60.0)
        with pytest.raises(PartMissing, match="rank 1: it has no room to write even why"):
            wait_for_parts(folder, [0, 1], 60.0)


@pytest.mark.parametrize("ranks", [{0, 1}, {1}])
def test_a_file_that_is_refused_is_told_with_its_reason(ranks: set[int], yard: Yard) -> None:
    setup = partial(limit_the_size_of_files, ranks)
    points = yard.train(2, steps=4, checkpoint={"every_steps": 2}, setup=setup)[0]
    assert states(points) == [("off", 2), ("off", 4)]
    assert all("File too large" in note["why"] for note in notes(points))
    assert list(after(points, "train/loss", 0)) == [1, 2, 3, 4]
    assert not [name for name in yard.names() if name.startswith("step-")]


def test_a_rank_that_does_not_deliver_is_named(yard: Yard) -> None:
    points = yard.train(2, steps=2, checkpoint={"every_steps": 2}, setup=let_rank_1_write_nothing)[0]
    assert states(points) == [("off", 2)]
    assert "the parts of ranks 1 were not there after 0.3 s" in notes(points)[0]["why"]
    assert yard.names() == []


def test_nodes_that_do_not_share_the_folder_are_told_what_to_do(yard: Yard) -> None:
    points = yard.train(2, steps=4, checkpoint={"every_steps": 2}, setup=give_rank_1_a_folder_of_its_own)[0]
    (off,) = notes(points)
    assert off["state"] == "off" and "step" not in off
    assert "does not see in" in off["why"] and "set TRAINYARD_CHECKPOINTS of every node's worker" in off["why"]
    assert list(after(points, "train/loss", 0)) == [1, 2, 3, 4]
    assert yard.names() == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_nobody_may_write_to_is_told(yard: Yard) -> None:
    yard.folder.mkdir(mode=0o500)
    points = yard.train(2, steps=2, checkpoint={"every_steps": 2})[0]
    assert "cannot write to" in notes(points)[0]["why"]


def test_a_file_in_the_place_of_the_folder_is_told(yard: Yard) -> None:
    yard.folder.write_text("")
    points = yard.train(2, steps=2, checkpoint={"every_steps": 2})[0]
    (off,) = notes(points)
    assert off["state"] == "off" and "cannot write to" in off["why"] and "File exists" in off["why"]


def test_a_folder_that_vanishes_is_told_and_costs_no_training(yard: Yard) -> None:
    points = yard.train(1, steps=4, checkpoint={"every_steps": 2}, setup=remove_the_folder_behind_step_2)[0]
    assert states(points) == [("saved", 2), ("off", 4)]
    assert "No such file or directory" in notes(points)[1]["why"]


def remove_the_folder_behind_step_2() -> None:
    from workers.training.keeping import DiskCheckpoints

    after_step = DiskCheckpoints.after_step

    def removing(self, training, step, *, is_last):  # type: ignore[no-untyped-def]
        after_step(self, training, step, is_last=is_last)
        if step == 2:
            assert self._saver.wait(30)
            shutil.rmtree(os.environ["TRAINYARD_CHECKPOINTS"])

    DiskCheckpoints.after_step = removing  # type: ignore[method-assign]
