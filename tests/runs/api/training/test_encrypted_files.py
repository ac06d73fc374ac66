"""Output files of a project that encrypts: hidden on the server's disk, and everywhere else as they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runs.models import Attempt
from runs.privacy.storage import DataKind, of_runs
from runs.records.files import outputs
from runs.records.files.encrypted import PREFIX, append_part, bytes_here, context_of
from runs.records.files.paths import output_folder
from runs.rights.secrets.key_stores import FileKeys
from runs.rights.secrets.storage_keys import destroy_storage_keys
from tests.cast import Cast
from tests.runs.api.conftest import Api
from tests.runs.api.training.test_uploads import KEY, Sender, attempt, senders
from trainyard.at_rest.chunks import CHUNK_BYTES, DecryptedFile, encrypted_size, is_encrypted
from trainyard.at_rest.keyring import Keyring

__all__ = ["attempt", "senders"]  # fixtures
pytestmark = pytest.mark.usefixtures("valkey")
DATA = bytes(range(256)) * 10_240 + b"the end"  # 2.5 chunks


@pytest.fixture(autouse=True)
def own_keys(tmp_path: Path, settings: Any) -> FileKeys:
    settings.HOME = tmp_path
    return FileKeys(tmp_path / "secrets.key")


def switch(cast: Cast, *, encrypts: bool = True, **body: Any) -> None:
    answer = Api(cast.owner)("PUT", "/projects/default/encryption", {"encrypts": encrypts, **body})
    assert answer.status_code == 200, answer.content


def on_disk(attempt: Attempt) -> dict[str, bytes]:
    root = output_folder(attempt.run_id)
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def download(api: Api, attempt: Attempt, path: str, **headers: str) -> Any:
    answer = api("GET", f"/runs/{attempt.run_id}/files/{path}", **headers)
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    return answer.status_code, content


def send_in_parts(node: Sender, path: str, data: bytes) -> None:
    assert node.begin(path, len(data)).json()["offset"] == 0
    for offset in range(0, len(data), CHUNK_BYTES):
        assert node("PUT", f"uploads/{KEY}/{offset}", data[offset : offset + CHUNK_BYTES]).status_code == 200


def test_whole_files_and_parts_are_hidden_on_the_disk_and_downloaded_as_they_were(
    cast: Cast, attempt: Attempt, senders: list[Sender]
) -> None:
    assert senders[0]("PUT", "files/plain.txt", b"from before").status_code == 204
    switch(cast)
    assert senders[0]("PUT", "files/deep/small.txt", b"hello").status_code == 204
    send_in_parts(senders[0], "big.bin", DATA)
    found = on_disk(attempt)
    assert set(found) == {"plain.txt", f"deep/{PREFIX}small.txt", f"{PREFIX}big.bin"}
    assert b"hello" not in found[f"deep/{PREFIX}small.txt"] and DATA[:64] not in found[f"{PREFIX}big.bin"]
    assert is_encrypted(found[f"{PREFIX}big.bin"])
    mate = Api(cast.mate)
    listed = mate("GET", f"/runs/{attempt.run_id}/files").json()["items"]
    assert [(one["path"], one["size_bytes"]) for one in listed] == [
        ("big.bin", len(DATA)), ("plain.txt", 11), ("deep/small.txt", 5),
    ]  # fmt: skip
    assert download(mate, attempt, "big.bin") == (200, DATA)
    assert download(mate, attempt, "deep/small.txt") == (200, b"hello")
    assert download(mate, attempt, "plain.txt") == (200, b"from before")


@pytest.mark.parametrize("first", [0, 5, CHUNK_BYTES - 1, CHUNK_BYTES, len(DATA) - 1])
def test_a_download_goes_on_from_any_byte(cast: Cast, attempt: Attempt, senders: list[Sender], first: int) -> None:
    switch(cast)
    send_in_parts(senders[0], "big.bin", DATA)
    assert download(Api(cast.mate), attempt, "big.bin", RANGE=f"bytes={first}-") == (206, DATA[first:])
    assert download(Api(cast.mate), attempt, "big.bin", RANGE=f"bytes={len(DATA)}-")[0] == 416


def test_what_is_stored_counts_for_the_quota(cast: Cast, attempt: Attempt, senders: list[Sender]) -> None:
    switch(cast)
    send_in_parts(senders[0], "big.bin", DATA)
    assert of_runs(DataKind.OUTPUTS, [attempt.run_id]).bytes == encrypted_size(len(DATA)) > len(DATA)


def test_another_content_or_an_empty_one_takes_the_place_of_the_one_before(
    cast: Cast, attempt: Attempt, senders: list[Sender]
) -> None:
    mate = Api(cast.mate)
    for number, encrypts in enumerate((False, True, True, False)):
        switch(cast, encrypts=encrypts)
        assert senders[0]("PUT", "files/one.txt", b"%d" % number).status_code == 204
        assert download(mate, attempt, "one.txt") == (200, b"%d" % number)
        assert list(on_disk(attempt)) == [f"{PREFIX if encrypts else ''}one.txt"]
    switch(cast)
    assert senders[0].begin("empty.txt", 0).json()["is_done"]
    assert download(mate, attempt, "empty.txt") == (200, b"")


def test_links_and_names_of_several_nodes_lead_to_encrypted_files(
    cast: Cast, attempt: Attempt, senders: list[Sender]
) -> None:
    switch(cast)
    assert senders[1]("PUT", "files/one.txt", b"from two").status_code == 204
    assert senders[0]("PUT", "files/one.txt", b"from one").status_code == 204  # which has its names in any case
    assert senders[0].begin("same.txt", 8, same_as="one.txt").json()["is_done"]
    mate = Api(cast.mate)
    assert download(mate, attempt, "one.txt") == (200, b"from one")
    assert download(mate, attempt, "same.txt") == (200, b"from one")
    assert download(mate, attempt, "node-1/one.txt") == (200, b"from two")


def test_a_part_that_was_cut_off_by_a_crash_begins_anew(cast: Cast, attempt: Attempt, senders: list[Sender]) -> None:
    """Else a chunk might be encrypted twice under one nonce."""
    switch(cast)
    node = senders[0]
    node.begin("big.bin", len(DATA))
    node("PUT", f"uploads/{KEY}/0", DATA[:CHUNK_BYTES])
    (part,) = (output_folder(attempt.run_id).parent / "uploads").iterdir()
    before = part.read_bytes()
    assert node.begin("big.bin", len(DATA)).json()["offset"] == CHUNK_BYTES
    part.write_bytes(before + b"half a chunk")
    assert node.begin("big.bin", len(DATA)).json()["offset"] == 0
    send_in_parts(node, "big.bin", DATA)
    assert download(Api(cast.mate), attempt, "big.bin") == (200, DATA)
    assert on_disk(attempt)[f"{PREFIX}big.bin"][: len(before)] != before


def test_a_part_that_ends_within_a_chunk_is_refused(cast: Cast, senders: list[Sender]) -> None:
    switch(cast)
    senders[0].begin("big.bin", len(DATA))
    refused = senders[0]("PUT", f"uploads/{KEY}/0", DATA[:100])
    assert refused.status_code == 422 and "whole number of 1,048,576 bytes" in refused.json()["detail"]


def test_a_file_in_parts_goes_on_with_its_key_and_begins_anew_without(
    cast: Cast, attempt: Attempt, senders: list[Sender]
) -> None:
    switch(cast)
    node = senders[0]
    node.begin("big.bin", len(DATA))
    node("PUT", f"uploads/{KEY}/0", DATA[:CHUNK_BYTES])
    switch(cast, new_key=True)
    assert node("PUT", f"uploads/{KEY}/{CHUNK_BYTES}", DATA[CHUNK_BYTES : 2 * CHUNK_BYTES]).json()["offset"]
    destroy_storage_keys(cast.project)
    switch(cast)
    again = node("PUT", f"uploads/{KEY}/{2 * CHUNK_BYTES}", DATA[2 * CHUNK_BYTES :])
    assert again.json() == {"path": "", "offset": 0, "is_done": False}
    send_in_parts(node, "big.bin", DATA)
    assert download(Api(cast.mate), attempt, "big.bin") == (200, DATA)


def test_what_was_changed_or_whose_key_is_gone_is_refused_with_the_reason(
    cast: Cast, attempt: Attempt, senders: list[Sender]
) -> None:
    switch(cast)
    senders[0]("PUT", "files/one.txt", b"hello")
    path = output_folder(attempt.run_id) / f"{PREFIX}one.txt"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    status, content = download(Api(cast.mate), attempt, "one.txt")
    assert status == 409 and b"one.txt cannot be decrypted: the last chunk does not open" in content
    path.write_bytes(whole)
    destroy_storage_keys(cast.project)
    status, content = download(Api(cast.mate), attempt, "one.txt")
    assert status == 409 and b"version 1 of its project's key; given were no key" in content


def test_a_file_of_another_run_does_not_open_here(tmp_path: Path) -> None:
    keyring = Keyring(1, {1: b"k" * 32})
    with (tmp_path / "part").open("a+b") as file:
        append_part(file, b"hello", run_id="one", size=5, keyring=keyring)
        file.seek(0)
        assert DecryptedFile(file, keyring, context_of("one")).read() == b"hello"
        file.seek(0)
        with pytest.raises(Exception, match="belongs to another place"):
            DecryptedFile(file, keyring, context_of("two"))


def test_no_node_names_its_files_as_encrypted_ones_are(cast: Cast, attempt: Attempt, senders: list[Sender]) -> None:
    assert senders[0]("PUT", f"files/{PREFIX}one.txt", b"hello").status_code == 422
    assert outputs.listing(attempt.run_id) == []


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES])
def test_what_is_here_is_counted_in_whole_chunks(size: int) -> None:
    assert bytes_here(encrypted_size(size), size) == size
    assert bytes_here(0, 9 * CHUNK_BYTES) == 0
    assert bytes_here(encrypted_size(2 * CHUNK_BYTES) + 1, 9 * CHUNK_BYTES) == 0
    assert bytes_here(encrypted_size(2 * CHUNK_BYTES), 9 * CHUNK_BYTES) == 2 * CHUNK_BYTES
