"""The newest checkpoint of a paused run is damaged, in seven ways: it is detected, and the one before is used."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.chaos.scene import Scene
from tests.whole.runs import until

Damage = Callable[[Path, random.Random], None]


def checkpoint_is_damaged(scene: Scene, damage: Damage) -> None:
    run = scene.submit(steps=1_000_000)
    scene.wait_for_a_step(run, 120, 300)
    scene.yard.post(f"/runs/{run}/pause")
    until(lambda: scene.yard.run(run)["status"] == "PAUSED")
    scene.check_status(run)
    damage(scene.checkpoints(run)[0], scene.choice)
    scene.yard.post(f"/runs/{run}/resume")
    until(lambda: "restored" in [event["code"] for event in scene.events(run)])
    codes = [event["code"] for event in scene.events(run)]
    assert "checkpoint-invalid" in codes, codes
    scene.yard.wait_for_step(run, 320)
    scene.yard.post(f"/runs/{run}/stop")


def truncate(folder: Path, choice: random.Random) -> None:
    path = largest_file(folder)
    os.truncate(path, choice.randrange(path.stat().st_size))


def flip_a_bit(folder: Path, choice: random.Random) -> None:
    path = largest_file(folder)
    content = bytearray(path.read_bytes())
    content[choice.randrange(len(content))] ^= 1 << choice.randrange(8)
    path.write_bytes(content)


def lose_the_manifest(folder: Path, _: random.Random) -> None:
    manifest_of(folder).unlink()


def lose_a_file(folder: Path, _: random.Random) -> None:
    largest_file(folder).unlink()


def change_the_manifest(folder: Path, choice: random.Random) -> None:
    """Another step than the one that was written, in a document that reads well."""
    document = json.loads(manifest_of(folder).read_text())
    document["step"] = int(document["step"]) + choice.randrange(1, 50)
    manifest_of(folder).write_text(json.dumps(document))


def empty_the_manifest(folder: Path, choice: random.Random) -> None:
    os.truncate(manifest_of(folder), choice.randrange(manifest_of(folder).stat().st_size))


def take_a_file_of_another(folder: Path, _: random.Random) -> None:
    """The state of an older step, under the newer one's name."""
    others = [path for path in folder.parent.glob("step-*") if path != folder]
    older = max(others, key=lambda path: path.stat().st_mtime)
    shutil.copyfile(older / largest_file(folder).relative_to(folder), largest_file(folder))


def largest_file(folder: Path) -> Path:
    return max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)


def manifest_of(folder: Path) -> Path:
    return next(folder.glob("manifest*"))


def checkpoint_is_truncated(scene: Scene) -> None:
    checkpoint_is_damaged(scene, truncate)


def checkpoint_has_a_flipped_bit(scene: Scene) -> None:
    checkpoint_is_damaged(scene, flip_a_bit)


def checkpoint_lost_its_manifest(scene: Scene) -> None:
    checkpoint_is_damaged(scene, lose_the_manifest)


def checkpoint_lost_a_file(scene: Scene) -> None:
    checkpoint_is_damaged(scene, lose_a_file)


def checkpoint_has_another_manifest(scene: Scene) -> None:
    checkpoint_is_damaged(scene, change_the_manifest)


def checkpoint_has_a_torn_manifest(scene: Scene) -> None:
    checkpoint_is_damaged(scene, empty_the_manifest)


def checkpoint_has_a_file_of_another(scene: Scene) -> None:
    checkpoint_is_damaged(scene, take_a_file_of_another)
