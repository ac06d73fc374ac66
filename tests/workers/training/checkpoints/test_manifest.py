"""Encrypted checkpoints of real ranks: nothing of them is readable on the disk, and all that plain ones do works."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workers.training.checkpoints.yard import RUN, Yard, after, largest_difference, states
from tests.workers.training.ranks import notes, series
from trainyard.at_rest.chunks import HEADER, is_encrypted
from trainyard.at_rest.keyring import Keyring
from workers.training.checkpoints.manifest import MANIFEST, Manifest, file_context, read_manifest
from workers.training.checkpoints.reading import check_files

pytestmark = pytest.mark.extended  # many trainings
FIRST, SECOND = Keyring(1, {1: b"1" * 32}), Keyring(2, {1: b"1" * 32, 2: b"2" * 32})
OFF = Keyring(0, SECOND.keys)
EVERY_2 = {"steps": 6, "schedule": "constant", "checkpoint": {"every_steps": 2}}
FILE = "rank-0.safetensors"


def keys(folder: Path, keyring: Keyring) -> str:
    path = folder / f"keys-{keyring.newest}-{len(keyring.keys)}"
    path.write_text(keyring.to_text())
    return str(path)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    """Two ranks' checkpoints behind steps 2, 4 and 6, encrypted with the first key."""
    folder = tmp_path_factory.mktemp("made")
    yard = Yard(folder / "checkpoints", keys=keys(folder, FIRST))
    assert {note["key_version"] for note in notes(yard.train(2, **EVERY_2)[0])} == {1}
    return yard


@pytest.fixture
def yard(made: Yard, tmp_path: Path) -> Yard:
    shutil.copytree(made.folder, tmp_path / "checkpoints")
    copy = Yard(tmp_path / "checkpoints", keys=keys(tmp_path, FIRST))
    copy.fence = made.fence
    return copy


def manifest_of(yard: Yard, name: str, keyring: Keyring) -> Manifest:
    fence, step = int(name.rpartition("-")[2]), int(name.removeprefix("step-").partition(".")[0])
    return read_manifest(yard.folder / name, keyring, file_context(RUN, fence, step, MANIFEST))


def test_every_file_is_encrypted_and_is_checked_without_a_key(yard: Yard) -> None:
    files = [path for path in yard.folder.rglob("*") if path.is_file()]
    assert len(files) == 9 and all(is_encrypted(path.read_bytes()[:8]) for path in files)
    assert not any(word in path.read_bytes() for path in files for word in (b"model/", b"random", b"__metadata__"))
    for name in yard.names():
        check_files(yard.folder / name, manifest_of(yard, name, FIRST), 0, 1)


def test_it_goes_on_as_a_plain_one_does_also_with_newer_keys_and_after_it_was_switched_off(
    yard: Yard, tmp_path: Path
) -> None:
    plain = Yard(tmp_path / "plain").train(2, **{**EVERY_2, "steps": 8})[0]
    for keyring, encrypts in ((SECOND, True), (OFF, False)):
        shutil.copytree(yard.folder, tmp_path / f"with-{keyring.newest}")
        copy = Yard(tmp_path / f"with-{keyring.newest}", keys=keys(tmp_path, keyring))
        copy.fence = yard.fence
        points = copy.train(2, **{**EVERY_2, "steps": 8})[0]
        assert states(points)[0] == ("restored", 6)
        assert after(points, "train/loss", 6) == after(plain, "train/loss", 6), "bit for bit"
        newest = (copy.folder / "step-8.fence-2" / FILE).read_bytes()
        assert is_encrypted(newest) == encrypts
        assert not encrypts or HEADER.unpack(newest[: HEADER.size])[1] == 2, "new saves have the newest key"


def test_another_cut_of_the_model_reads_only_its_shards(yard: Yard, tmp_path: Path) -> None:
    plain = Yard(tmp_path / "plain").train(2, **{**EVERY_2, "steps": 8})[0]
    points = yard.train(1, **{**EVERY_2, "steps": 8}, parallel={})[0]
    assert states(points)[0] == ("restored", 6)
    assert largest_difference(points, plain, step=6) < 1e-5
    sharded = yard.train(2, **{**EVERY_2, "steps": 10}, parallel={"shard": 2})[0]
    assert states(sharded)[0] == ("restored", 8) and 10 in series(sharded, "train/loss")


def test_a_run_of_the_same_project_goes_on_from_it_and_without_the_key_it_is_named_in_words(
    yard: Yard, tmp_path: Path
) -> None:
    other = Yard(tmp_path / "other", run="otherotherrn", keys=yard.keys)
    assert states(other.train(2, restore=yard.offers(), **{**EVERY_2, "steps": 8})[0])[0] == ("restored", 6)
    stranger = Yard(tmp_path / "stranger", run="strangerrun1")
    told = notes(stranger.train(2, restore=yard.offers()[:1], **EVERY_2)[0])
    assert [one["state"] for one in told[:2]] == ["invalid", "anew"]
    assert told[0]["why"] == (
        "manifest.json cannot be decrypted: it is encrypted with version 1 of its project's key; given were no key"
    )


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)


def foreign(name: str) -> Callable[[Path], None]:
    """The file of the checkpoint before, which is encrypted with the same key."""

    def exchange(folder: Path) -> None:
        shutil.copyfile(folder.with_name("step-4.fence-1") / name, folder / name)

    return exchange


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a chunk changed": (lambda folder: flip(folder / FILE), f"{FILE} is not as it was written: its SHA-256 differs"),
    "a manifest changed": (
        lambda folder: flip(folder / MANIFEST),
        f"{MANIFEST} cannot be decrypted: the last chunk does not open: it was changed, cut off, or belongs to "
        "another place",
    ),
    "a foreign file": (foreign(FILE), f"{FILE} is not as it was written: its SHA-256 differs"),
    "a foreign manifest": (
        foreign(MANIFEST),
        f"{MANIFEST} cannot be decrypted: the last chunk does not open: it was changed, cut off, or belongs to "
        "another place",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_one_is_named_and_the_one_before_is_used(damage: str, yard: Yard) -> None:
    harm, why = DAMAGES[damage]
    harm(yard.folder / "step-6.fence-1")
    told = notes(yard.train(2, **EVERY_2)[0])
    assert (told[0]["state"], told[0]["step"], told[0]["why"]) == ("invalid", 6, why)
    assert (told[1]["state"], told[1]["step"]) == ("restored", 4)
