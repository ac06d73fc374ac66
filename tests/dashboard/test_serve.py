"""The site as processes of their own, without `up`."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from dashboard.up.parent_death import tethered
from tests.servers import Valkey, free_port, short_folder
from tests.up_process import OURS, ROOT, new_home, wait_until


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder("ty-serve-") as made:
        yield made


@pytest.fixture
def redis(folder: Path) -> Iterator[Valkey]:
    server = Valkey(folder / "valkey")
    server.start()
    yield server
    server.stop()


def begin(home: Path, *words: str, **changes: str) -> subprocess.Popen[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    command = tethered([sys.executable, "-m", "dashboard.serve", *words])
    environment = {**inherited, "TRAINYARD_HOME": str(home), **changes}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def said(home: Path, *words: str, **changes: str) -> tuple[int, str]:
    process = begin(home, *words, **changes)
    output, _ = process.communicate(timeout=120)
    return process.returncode, output.strip()


def test_web_control_and_ingest_serve_and_end_when_they_are_asked_to(folder: Path, redis: Valkey) -> None:
    home, port = new_home(folder), free_port()
    settings = {"REDIS_URL": redis.url, "PORT": str(port)}
    code, words = said(home, "migrate")
    assert code == 0 and words.startswith("0 migrations were applied. ") and "trainyard sign-in-link" in words
    processes = [begin(home, name, **settings) for name in ("control", "ingest", "web")]
    try:
        wait_until(lambda: answers(port), "web answers")
        nodes = httpx.get(f"http://127.0.0.1:{port}/api/v1/nodes")
        assert nodes.status_code == 401, "nobody is signed in"
        assert [one.poll() for one in processes] == [None, None, None]
        begun = time.monotonic()
        for one in processes:
            one.send_signal(signal.SIGTERM)
        codes = [one.wait(timeout=30) for one in processes]
        assert codes in ([0, 0, 0], [0, 0, -signal.SIGTERM]) and time.monotonic() - begun < 20
    finally:
        for one in processes:
            one.kill()
            one.communicate()


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/api/v1/health").status_code == 200
    except httpx.TransportError:
        return False


def test_a_process_needs_a_valkey_that_all_share(folder: Path) -> None:
    code, words = said(new_home(folder), "control")
    assert code == 1 and words.startswith("REDIS_URL is not set")


def test_a_database_that_is_behind_is_not_migrated_by_the_way(folder: Path, redis: Valkey) -> None:
    code, words = said(new_home(folder, is_migrated=False), "web", REDIS_URL=redis.url)
    assert code == 1 and "migrations of this version: run `trainyard migrate` first." in words


def test_a_shard_that_is_none_and_a_port_that_is_taken_are_named(folder: Path, redis: Valkey) -> None:
    home = new_home(folder)
    code, words = said(home, "ingest", "--shard", "2", REDIS_URL=redis.url)
    assert (code, words) == (1, "--shard is 2; INGEST_SHARDS makes it 0 to 0.")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, words = said(home, "web", REDIS_URL=redis.url, PORT=str(port))
    assert code == 1 and f"127.0.0.1:{port} cannot be listened on" in words


def test_secrets_are_read_from_files_and_a_file_that_is_none_is_named(folder: Path, redis: Valkey) -> None:
    home, file = new_home(folder), folder / "redis_url"
    code, words = said(home, "ingest", REDIS_URL_FILE=str(file))
    assert code == 1 and words.startswith(f"REDIS_URL_FILE is {file}, which cannot be read: ")
    file.write_text(f"{redis.url}\n")
    code, words = said(home, "ingest", "--shard", "2", REDIS_URL_FILE=str(file))
    assert (code, words) == (1, "--shard is 2; INGEST_SHARDS makes it 0 to 0."), "a process has its Valkey"
