"""Where a backup lies: a file of this machine, or an object of S3 or of a store that speaks as it does.

Who may read and write there, and the store's address (``AWS_ENDPOINT_URL_S3``), boto3 takes from where it always does:
the environment, ``~/.aws`` or the machine's role. Either is there when all of it is, and never half of one.
"""

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit

from dashboard.up.checks import CannotStart
from trainyard.extras import advice

SCHEME = "s3://"
PART_BYTES = 32 * 2**20  # S3 takes 10,000 parts of at least 5 MiB each
RANGE_BYTES = 8 * 2**20  # of one request
GROWS_EVERY = 1000  # parts: then they are larger by PART_BYTES, so that 1.8 TB fit


class Upload(io.RawIOBase):
    """An object of S3 that is written in parts as it comes, with no copy on a disk."""

    def __init__(self, client: Any, bucket: str, key: str) -> None:
        self._client, self._waiting, self._parts, self._num_bytes = client, bytearray(), list[dict[str, Any]](), 0
        self._object = {"Bucket": bucket, "Key": key}
        self._object["UploadId"] = client.create_multipart_upload(**self._object)["UploadId"]

    def tell(self) -> int:
        return self._num_bytes

    def write(self, data: Any) -> int:
        self._waiting += data
        self._num_bytes += len(data)
        while len(self._waiting) >= (size := PART_BYTES * (1 + len(self._parts) // GROWS_EVERY)):
            self._send(size)
        return len(data)

    def finish(self) -> None:
        if self._waiting or not self._parts:
            self._send(len(self._waiting))
        self._client.complete_multipart_upload(**self._object, MultipartUpload={"Parts": self._parts})

    def abort(self) -> None:
        self._client.abort_multipart_upload(**self._object)

    def _send(self, size: int) -> None:
        number = len(self._parts) + 1
        done = self._client.upload_part(**self._object, PartNumber=number, Body=bytes(self._waiting[:size]))
        self._parts.append({"PartNumber": number, "ETag": done["ETag"]})
        del self._waiting[:size]


class Download(io.RawIOBase):
    """An object of S3 that is read in ranges, all of one version of it: a reader may seek."""

    def __init__(self, client: Any, bucket: str, key: str) -> None:
        self._client, self._at = client, 0
        head = client.head_object(Bucket=bucket, Key=key)
        self._num_bytes = head["ContentLength"]
        self._object = {"Bucket": bucket, "Key": key, "IfMatch": head["ETag"]}

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._num_bytes}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        end = min(self._at + len(buffer), self._num_bytes)
        if self._at >= end:
            return 0
        data = self._client.get_object(**self._object, Range=f"bytes={self._at}-{end - 1}")["Body"].read()
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


@contextlib.contextmanager
def written(where: str) -> Iterator[BinaryIO]:
    """Yield a file to write the backup into, which only its owner reads: it holds the key of the site. The backup
    appears at ``where`` when the block ends, and not where it raises."""
    if where.startswith(SCHEME):
        with _in_words(where):
            upload = Upload(*_object(where))
            try:
                yield cast(BinaryIO, upload)
                upload.finish()
            except BaseException:
                with contextlib.suppress(Exception):  # why it ended counts; the store keeps parts as its rules say
                    upload.abort()
                raise
        return
    target = Path(where)
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


@contextlib.contextmanager
def opened(where: str) -> Iterator[io.BufferedReader]:
    """Yield the backup to be read."""
    if not where.startswith(SCHEME):
        with Path(where).open("rb") as file:
            yield file
        return
    with _in_words(where):
        yield io.BufferedReader(Download(*_object(where)), RANGE_BYTES)


def _object(where: str) -> tuple[Any, str, str]:
    """Return a client, the bucket and the object's key."""
    try:
        import boto3
    except ModuleNotFoundError as error:
        raise CannotStart(f"{where} needs boto3, which is not installed here: {advice('s3')}") from error
    parts = urlsplit(where)
    if not parts.netloc or not parts.path.strip("/"):
        raise CannotStart(f"{where!r} names no object of a bucket, such as s3://bucket/folder/backup.tar.gz.")
    return boto3.client("s3"), parts.netloc, where.removeprefix(f"{SCHEME}{parts.netloc}/")


@contextlib.contextmanager
def _in_words(where: str) -> Iterator[None]:
    """Raise CannotStart for what the store refuses and where it cannot be reached."""
    try:
        yield
    except Exception as error:
        if (type(error).__module__ or "").partition(".")[0] not in ("boto3", "botocore"):
            raise
        raise CannotStart(f"{where}: {error}") from error
