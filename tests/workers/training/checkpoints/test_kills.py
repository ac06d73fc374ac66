"""SIGKILL in the middle of saves: what is there is whole, and the training goes on as if nothing had been."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import statistics
import time
from pathlib import Path

import pytest

from tests.workers.training.checkpoints.yard import Yard, after
from tests.workers.training.ranks import Recorder, free_port, notes, recipe_spec
from trainyard.at_rest.chunks import is_encrypted
from trainyard.at_rest.keyring import NO_KEYS, Keyring
from workers.training.checkpoints.manifest import MANIFEST, file_context, read_manifest
from workers.training.checkpoints.reading import check_files
from workers.training.checkpoints.store import TEMPORARY, find

MANY_KILLS = int(os.environ.get("CHAOS_SEEDS", "8"))  # 20 in `make chaos`
RUN = {
    "model": {"layers": 2, "width": 128, "heads": 2, "context": 16},  # 4 MB with Adam's state: a save takes a while
    "checkpoint": {"every_steps": 1, "keep": 2},
    "validate_every_steps": 0,
}
KEYRING = Keyring(1, {1: b"k" * 32})
START_TIMEOUT_S = 60.0
MOST_STEPS = 3  # of an attempt before the save that is met


def attempt(rank: int, world: int, steps: int, port: int, environment: dict[str, str], losses: Path) -> None:
    """One rank of an attempt that somebody will kill: it writes each loss down as it comes."""
    from workers.training.group import RankPlace
    from workers.training.main import train

    os.environ.update({**environment, "TRAINYARD_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})

    class Writer(Recorder):
        def log(self, values, step=None, labels=None):  # type: ignore[no-untyped-def]
            if "train/loss" in values:
                with losses.open("a") as file:
                    file.write(json.dumps([step, values["train/loss"]]) + "\n")

    train(
        recipe_spec(world=world, steps=steps, **RUN),
        RankPlace(rank, rank, world, world, 0, "127.0.0.1", port),
        Writer(),
    )
    os._exit(0)


class Killed:
    """A run whose attempts are killed, one after the other."""

    def __init__(self, folder: Path, world: int, steps: int, keys: str) -> None:
        self.yard = Yard(folder / "checkpoints", keys=keys)
        self.losses = folder / "losses.jsonl"
        self.world, self.steps = world, steps

    def start(self) -> list[multiprocessing.process.BaseProcess]:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tests.workers.training.ranks"])
        self.yard.fence += 1
        environment = {
            "TRAINYARD_RUN": self.yard.run,
            "TRAINYARD_FENCE": str(self.yard.fence),
            "TRAINYARD_CHECKPOINTS": str(self.yard.folder),
            "TRAINYARD_RESTORE": json.dumps(self.yard.offers()),
            "TRAINYARD_STORAGE_KEYS": self.yard.keys,
        }
        port = free_port()
        ranks = [
            context.Process(target=attempt, args=(rank, self.world, self.steps, port, environment, self.losses))
            for rank in range(self.world)
        ]
        for rank in ranks:
            rank.start()
        return ranks

    def wait_for_a_save(self, ranks: list[multiprocessing.process.BaseProcess], step: int) -> bool:
        """Return whether the save of a step, or a later one, has begun; False when the run ended before."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self.yard.folder.is_dir() and any(
                mark.fence == self.yard.fence and mark.step >= step for mark in find(self.yard.folder, TEMPORARY)
            ):
                return True
            if all(rank.exitcode is not None for rank in ranks):
                return False
            time.sleep(0.0005)
        pytest.fail(f"no save has begun in {START_TIMEOUT_S:g} s")

    def kill_in_a_save(self, step: int, delay_s: float) -> bool:
        """Kill so long after the save of ``step`` has begun; return whether the kill met one that was not complete."""
        ranks = self.start()
        try:
            assert self.wait_for_a_save(ranks, step), "the run was over before it could be killed"
            time.sleep(delay_s)
        finally:
            for rank in ranks:
                rank.kill()
            for rank in ranks:
                rank.join()
        return any(mark.fence == self.yard.fence for mark in find(self.yard.folder, TEMPORARY))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("num_kills", "steps", "keyring"),
    [
        (3, 40, NO_KEYS),
        pytest.param(MANY_KILLS, 100, NO_KEYS, marks=pytest.mark.extended),
        pytest.param(max(4, MANY_KILLS // 4), 60, KEYRING, marks=pytest.mark.extended, id="encrypted"),
    ],
)
def test_kills_in_the_middle_of_saves_cost_nothing_that_was_whole(
    tmp_path: Path, num_kills: int, steps: int, keyring: Keyring
) -> None:
    seed = int(os.environ.get("CHAOS_SEED") or random.randrange(2**32))
    print(f"\nseed {seed}")
    chance = random.Random(seed)
    reference = Yard(tmp_path / "reference").train(2, steps=steps, **RUN)[0]
    uninterrupted = after(reference, "train/loss", 0)
    save_s = statistics.median(note["took_s"] for note in notes(reference) if note["state"] == "saved")
    keys = tmp_path / "keys"
    keys.write_text(keyring.to_text())
    killed = Killed(tmp_path, 2, steps, str(keys) if keyring.encrypts else "")
    num_met, newest = 0, 0
    for _ in range(num_kills):
        step = newest + chance.randint(1 if newest else 2, MOST_STEPS)  # behind a save that is whole, then
        num_met += killed.kill_in_a_save(step, chance.uniform(0, 1.2 * save_s))
        # All that have a name are whole: every one of them, not only the newest.
        marks = find(killed.yard.folder)
        for mark in marks:
            folder = killed.yard.folder / mark.name
            context = file_context(killed.yard.run, mark.fence, mark.step, MANIFEST)
            assert is_encrypted((folder / MANIFEST).read_bytes()) == keyring.encrypts
            check_files(folder, read_manifest(folder, keyring, context), 0, 1)
        if marks:
            assert marks[-1].step >= newest, "a checkpoint that was whole is lost"
            newest = marks[-1].step
    points = killed.yard.train(2, steps=steps, **RUN)[0]
    told = dict(map(tuple, map(json.loads, killed.losses.read_text().splitlines())))
    print(f"{num_met} of {num_kills} kills met a save that was not complete; the newest was of step {newest}")
    assert num_met >= num_kills // 4
    assert 0 < newest < steps
    assert {**told, **after(points, "train/loss", 0)} == uninterrupted
    assert not find(killed.yard.folder, TEMPORARY)
