from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workers.training.checkpoints.yard import RUN, Yard, after, states
from tests.workers.training.ranks import notes
from workers.training.checkpoints.manifest import MANIFEST, Damaged, Manifest, read_manifest
from workers.training.checkpoints.reading import check_files
from workers.training.checkpoints.store import retire

FILE = "rank-0.safetensors"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    """A run of two ranks with checkpoints behind steps 2, 4 and 6."""
    yard = Yard(tmp_path_factory.mktemp("made") / "checkpoints")
    yard.train(2, steps=6, schedule="constant", checkpoint={"every_steps": 2})
    return yard


@pytest.fixture
def yard(made: Yard, tmp_path: Path) -> Yard:
    shutil.copytree(made.folder, tmp_path / "checkpoints")
    copy = Yard(tmp_path / "checkpoints")
    copy.fence = made.fence
    return copy


def flip_bit(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def change_manifest(folder: Path, change: Callable[[dict[str, object]], object]) -> None:
    document = json.loads((folder / MANIFEST).read_text())
    change(document)
    (folder / MANIFEST).write_text(json.dumps(document))


def flip_digit(folder: Path) -> None:
    """Still JSON, and still a manifest: of another step."""
    text = (folder / MANIFEST).read_text()
    (folder / MANIFEST).write_text(text.replace('"step":6', '"step":7'))


def examine(folder: Path) -> Manifest:
    manifest = read_manifest(folder)
    check_files(folder, manifest, 0, 1)
    return manifest


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a bit flipped in a tensor": (lambda folder: flip_bit(folder / FILE, -5), r"rank-0\.safetensors is not as it was"),
    "a bit flipped in a header": (lambda folder: flip_bit(folder / FILE, 20), r"rank-0\.safetensors is not as it was"),
    "a file truncated": (lambda folder: truncate(folder / FILE), r"rank-0\.safetensors has \d+ bytes of its \d+"),
    "a file empty": (lambda folder: (folder / FILE).write_bytes(b""), r"has 0 bytes of its \d+"),
    "a file missing": (lambda folder: (folder / FILE).unlink(), r"rank-0\.safetensors cannot be read: No such file"),
    "no manifest": (lambda folder: (folder / MANIFEST).unlink(), r"manifest\.json cannot be read: No such file"),
    "a manifest truncated": (lambda folder: truncate(folder / MANIFEST), r"manifest\.json is not as it was written"),
    "a manifest empty": (lambda folder: (folder / MANIFEST).write_text(""), r"manifest\.json is not as it was written"),
    "a manifest of bytes": (lambda folder: (folder / MANIFEST).write_bytes(b"\xff\x00"), r"is not as it was written"),
    "a manifest that is a list": (lambda folder: (folder / MANIFEST).write_text("[]"), r"is not as it was written"),
    "a manifest nested deeply": (
        lambda folder: (folder / MANIFEST).write_text("[" * 100_000),
        r"is not as it was written",
    ),
    "a digit of the manifest flipped": (flip_digit, r"manifest\.json is not as it was written: its SHA-256 differs"),
    "a manifest of a newer version": (
        lambda folder: change_manifest(folder, lambda document: document.update(version=2, sha256="of another kind")),
        r"manifest\.json has version 2; this Trainyard reads version 1: update it",
    ),
    "a manifest of no version": (
        lambda folder: change_manifest(folder, lambda document: document.update(version="new")),
        r"its SHA-256 differs",
    ),
    "a file named that lies elsewhere": (
        lambda folder: change_manifest(folder, lambda document: document["files"].update({"../x": {}})),  # type: ignore[attr-defined]
        r"its SHA-256 differs",
    ),
    "the folder gone": (shutil.rmtree, r"its folder .* is not there"),
    "a file in the folder's place": (
        lambda folder: (shutil.rmtree(folder), folder.write_text("")),
        r"its folder .* is not there",
    ),
}


def test_what_was_written_is_whole(yard: Yard) -> None:
    manifests = [examine(yard.folder / name) for name in yard.names()]
    assert [manifest.step for manifest in manifests] == [2, 4, 6]
    assert [sorted(manifest.files) for manifest in manifests] == 3 * [["rank-0.safetensors", "rank-1.safetensors"]]


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_kind_of_damage_is_seen(damage: str, yard: Yard) -> None:
    harm, message = DAMAGES[damage]
    folder = yard.folder / "step-6.fence-1"
    harm(folder)
    with pytest.raises(Damaged, match=message):
        examine(folder)


def test_a_manifest_that_names_files_elsewhere_is_refused_even_with_its_digest(yard: Yard, tmp_path: Path) -> None:
    from workers.training.checkpoints.manifest import digest_of

    folder = yard.folder / "step-6.fence-1"

    def change(document: dict[str, object]) -> None:
        del document["sha256"]
        document["files"]["../../secret"] = {"bytes": 1, "sha256": ""}  # type: ignore[index]
        document["sha256"] = digest_of(document)

    change_manifest(folder, change)
    with pytest.raises(Damaged, match=r"'\.\./\.\./secret' is no name of a file here"):
        examine(folder)


def test_the_newest_valid_is_taken_and_what_is_wrong_with_the_others_is_told(yard: Yard) -> None:
    uninterrupted = yard.train(2, steps=6, schedule="constant", checkpoint={"every_steps": 0}, restore=[])[0]
    flip_bit(yard.folder / "step-6.fence-1" / "rank-1.safetensors", -1)
    truncate(yard.folder / "step-4.fence-1" / MANIFEST)
    points = yard.train(2, steps=6, schedule="constant", checkpoint={"every_steps": 2, "keep": 1})[0]
    assert states(points)[:3] == [("invalid", 6), ("invalid", 4), ("restored", 2)]
    invalid, torn, restored = notes(points)[:3]
    assert invalid["why"].startswith("rank-1.safetensors is not as it was written")
    assert torn["why"].startswith("manifest.json is not as it was written")
    assert (
        restored["run"] == RUN and (restored["step"], restored["fence"]) == (2, 1) and restored["degrees"]["data"] == 2
    )
    assert after(points, "train/loss", 0) == after(uninterrupted, "train/loss", 2)
    # The damaged ones went as soon as there was a new whole one, and with them the old.
    assert yard.names() == ["step-6.fence-3"]


def test_without_a_valid_one_the_run_starts_anew(yard: Yard) -> None:
    for name in yard.names():
        (yard.folder / name / MANIFEST).unlink()
    points = yard.train(2, steps=2, checkpoint={"every_steps": 2})[0]
    assert states(points)[:4] == [("invalid", 6), ("invalid", 4), ("invalid", 2), ("anew", 0)]
    assert list(after(points, "train/loss", 0)) == [1, 2]


def test_a_named_one_that_is_damaged_is_refused(yard: Yard) -> None:
    (yard.folder / "step-6.fence-1" / FILE).unlink()
    with pytest.raises(ValueError, match=rf"checkpoint\.restore is {RUN}@6, .* rank-0\.safetensors cannot be read"):
        yard.train(2, steps=8, checkpoint={"restore": f"{RUN}@6"}, restore=yard.offers()[:1])


def test_a_folder_without_a_manifest_takes_no_place_of_a_checkpoint(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        (tmp_path / f"step-{step}.fence-1").mkdir()
        (tmp_path / f"step-{step}.fence-1" / "manifest.json").write_text("{}")
    (tmp_path / "step-999.fence-9").mkdir()
    assert [mark.step for mark in retire(tmp_path, 2, set())] == [1]
    assert (tmp_path / "step-999.fence-9").is_dir()
