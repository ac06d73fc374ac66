"""A disk that was full leaves a hole in Valkey's append-only file, and Valkey starts again with all that it had."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis import Redis, ResponseError

from dashboard.up.programs import FOLDER, mend
from tests.disks import disk, fill
from tests.servers import Valkey, short_folder
from tests.up_process import wait_until

SET = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$6\r\n\r\n\0\0\r\n\r\n"  # its value looks like a hole


def test_valkey_starts_again_after_its_disk_was_full() -> None:
    with short_folder("ty-hole-") as folder, disk(folder / "d", mb=20) as small:
        server = Valkey(small / "valkey", durable=True)
        server.start()
        try:
            with Redis.from_url(server.url) as client:
                client.bgrewriteaof()  # the file that it begins then is not opened for appending
                wait_until(lambda: not client.info("persistence")["aof_rewrite_in_progress"], "the file is rewritten")
                client.set("before", "x" * 1000)
                filler = fill(small)

                def is_full() -> bool:
                    try:
                        client.append("while", "y" * 700)
                    except ResponseError:
                        return True
                    return False

                wait_until(is_full, "Valkey cannot write")
                filler.unlink()
                wait_until(lambda: not is_full(), "Valkey writes again")
                client.set("after", "z")
                wait_until(lambda: client.info("persistence")["aof_last_write_status"] == "ok", "all is written")
                length = client.strlen("while")
            server.kill()
            assert mend(server.folder).startswith("closed a hole of")
            server.start()
            with Redis.from_url(server.url) as client:
                assert (client.strlen("before"), client.strlen("while"), client.get("after")) == (1000, length, b"z")
        finally:
            server.stop()


@pytest.mark.parametrize("hole", [1, 468, 70_000])
def test_zeros_between_commands_are_left_out_and_those_of_values_stay(tmp_path: Path, hole: int) -> None:
    file = file_in(tmp_path, SET + bytes(hole) + SET + b"#TS:1\r\n" + SET + bytes(hole))
    assert mend(tmp_path) == f"closed a hole of {2 * hole} bytes in its append-only file, which a full disk had left"
    assert file.read_bytes() == SET + SET + b"#TS:1\r\n" + SET
    assert file.stat().st_mode & 0o777 == 0o600
    assert mend(tmp_path) == ""


@pytest.mark.parametrize(
    "data", [b"", SET, SET * 3 + SET[:-4], SET + b"?" + bytes(9) + SET, SET + b"*x\r\n\0\r\n" + SET, b"*1\r\n$-9\r\n\0"]
)
def test_a_file_that_is_whole_or_damaged_in_another_way_stays_as_it_is(tmp_path: Path, data: bytes) -> None:
    file = file_in(tmp_path, data)
    assert mend(tmp_path) == ""
    assert file.read_bytes() == data


def test_a_copy_that_finds_no_room_changes_nothing() -> None:
    with short_folder("ty-hole-") as folder, disk(folder / "d", mb=1) as small:
        file = file_in(small, SET * 16_000 + bytes(100) + SET)
        fill(small)
        assert "could not be closed" in mend(small)
        assert [one.name for one in file.parent.iterdir()] == [file.name]
        assert file.stat().st_size == len(SET) * 16_001 + 100


def file_in(folder: Path, data: bytes) -> Path:
    file = folder / FOLDER / "appendonly.aof.1.incr.aof"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(data)
    file.chmod(0o600)
    return file
