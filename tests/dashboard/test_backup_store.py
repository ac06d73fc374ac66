"""A backup in an object store, which is moto's server here: all of it or nothing, and it is restored from there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dashboard import backup, backup_store, restore
from dashboard.backup import Opener
from dashboard.home import LAST_BACKUP
from dashboard.up.checks import CannotStart
from tests.aws.account import ID, SECRET_KEY, Account, running_account
from tests.dashboard.test_backup import make_home

pytestmark = pytest.mark.extended
WEIGHTS = "runs/abc/output/model.safetensors"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with running_account(tmp_path_factory.mktemp("aws")) as account:
        account.client("s3").create_bucket(
            Bucket="backups", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
        )
        yield account


@pytest.fixture
def client(store: Account, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", store.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    return store.client("s3")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return make_home(tmp_path / "home")


def names(client: Any) -> list[str]:
    return [one["Key"] for one in client.list_objects_v2(Bucket="backups").get("Contents", [])]


def test_it_is_checked_and_unpacked_from_there(
    client: Any, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = os.urandom(12_000_000)
    (home / WEIGHTS).write_bytes(data)
    monkeypatch.setattr(backup_store, "PART_BYTES", 5 * 2**20)  # the least that a store takes
    monkeypatch.setenv("TRAINYARD_HOME", str(home))
    (tmp_path / "words").write_text("correct horse battery staple\n")
    assert backup.main(["s3://backups/nightly/", "--passphrase-file", str(tmp_path / "words")]) == 0
    (name,) = [one for one in names(client) if one.startswith("nightly/trainyard-") and one.endswith(".tar.gz")]
    head = client.head_object(Bucket="backups", Key=name)
    assert head["ETag"].strip('"').endswith("-3"), "in parts"
    assert f"s3://backups/{name} ({head['ContentLength'] / 1e6:.1f} MB)" in capsys.readouterr().out
    assert f'"file": "s3://backups/{name}"' in (home / LAST_BACKUP).read_text()
    opener = Opener(tmp_path / "words")
    assert "is whole: 7 files" in restore.check(f"s3://backups/{name}", opener)
    restore.unpack(f"s3://backups/{name}", tmp_path / "new", opener)
    assert (tmp_path / "new" / WEIGHTS).read_bytes() == data


def test_one_that_breaks_off_leaves_no_object_and_no_parts(
    client: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.put_object(Bucket="backups", Key="all.tar", Body=b"an older one")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backup, "add_database", full)
    with pytest.raises(OSError, match="No space left"):
        backup.back_up(home, "s3://backups/all.tar")
    assert client.get_object(Bucket="backups", Key="all.tar")["Body"].read() == b"an older one"
    assert client.list_multipart_uploads(Bucket="backups").get("Uploads", []) == []
    assert not (home / LAST_BACKUP).exists() and not list(home.glob(".backup-*"))


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("s3://no-bucket-here/all.tar", "s3://no-bucket-here/all.tar: .*NoSuchBucket"),
        ("s3://backups/", "names no object of a bucket, such as s3://bucket/"),
        ("s3:///all.tar", "names no object of a bucket"),
    ],
)
def test_a_place_that_cannot_be_is_named(client: Any, home: Path, where: str, words: str) -> None:
    with pytest.raises(CannotStart, match=words):
        backup.back_up(home, where)


def test_an_object_that_is_not_there_and_a_store_that_is_away_are_named(
    client: Any, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert restore.main(["s3://backups/none.tar", "--check"]) == 1
    assert "s3://backups/none.tar is no good backup: s3://backups/none.tar: " in capsys.readouterr().err
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    monkeypatch.setenv("TRAINYARD_HOME", str(home))
    assert backup.main(["s3://backups/all.tar"]) == 1
    assert "No backup was made: s3://backups/all.tar: Could not connect" in capsys.readouterr().err
