"""From start to stop: real processes, as `make up` runs them."""

from __future__ import annotations

import json
import os
import signal
import stat
import time
import urllib.request
from collections.abc import Iterator

import psutil
import pytest

from tests.servers import short_folder
from tests.up_process import Up, new_home, wait_until

SITE = {"up", "valkey", "web", "control", "ingest"}


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    """A Trainyard without nodes, for the tests after which it goes on."""
    with short_folder("ty-up-") as folder:
        one = Up(new_home(folder))
        try:
            yield one.wait_until_ready()
        finally:
            one.close()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/api/v1/health", timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def alive(processes: list[psutil.Process]) -> list[str]:
    left = [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
    return [" ".join(one.cmdline()) for one in left]


def test_it_serves_and_writes_down_what_runs(up: Up) -> None:
    assert answers(up.url)
    processes = up.processes()
    assert set(processes) == SITE
    assert all(psutil.pid_exists(pid) for pid in processes.values())
    assert up.token.startswith("ty")


def test_its_home_is_private(up: Up) -> None:
    assert stat.S_IMODE(up.home.stat().st_mode) == 0o700
    for name in ("client.toml", "secret_key", "trainyard.sqlite3"):
        assert stat.S_IMODE((up.home / name).stat().st_mode) == 0o600, name


def test_no_secret_stands_in_the_list_of_processes(up: Up) -> None:
    secrets = (up.token, (up.home / "secret_key").read_text())
    for process in [psutil.Process(up.process.pid), *up.descendants()]:
        assert not any(secret in word for word in process.cmdline() for secret in secrets)


@pytest.mark.parametrize("name", sorted(SITE - {"up"}))
def test_a_child_that_is_killed_is_started_again(up: Up, name: str) -> None:
    before = up.processes()[name]
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: up.processes().get(name, before) != before, f"{name} is started again")
    wait_until(lambda: answers(up.url), "the site answers")
    assert f"{name:<8} | -- ended with SIGKILL; it starts again in 0.2 s" in up.output


def test_it_stops_starts_again_with_another_token_and_is_killed_and_leaves_nothing_behind() -> None:
    """In a home so long that its socket is elsewhere."""
    with short_folder("ty-long-") as folder:
        (folder / ("long" * 30)).mkdir()
        home = new_home(folder / ("long" * 30), is_migrated=False)
        first = Up(home, TMPDIR=str(folder))
        try:
            first.wait_until_ready()
            assert [path.suffix for path in (folder / f"trainyard-{os.getuid()}").iterdir()] == [".sock"]
            token = first.token
            check_that_sigterm_stops_everything_in_ten_seconds(first)
        finally:
            first.close()
        second = Up(home, TMPDIR=str(folder))
        try:
            second.wait_until_ready()
            assert second.token != token
            processes = second.descendants()
            second.process.kill()
            wait_until(lambda: alive(processes) == [], "nothing is left", patience_s=5)
        finally:
            second.close()


def check_that_sigterm_stops_everything_in_ten_seconds(up: Up) -> None:
    processes, began_at = up.descendants(), time.monotonic()
    up.process.send_signal(signal.SIGTERM)
    assert up.wait_for_end() == 0
    assert time.monotonic() - began_at < 10  # the promise itself, not a measure of speed
    assert alive(processes) == []
    assert "Stopping: no run is live." in up.output
    assert not (up.home / "processes.json").exists()


def test_what_the_children_said_is_in_files(up: Up) -> None:
    assert "Ready to accept connections" in (up.home / "logs" / "valkey.log").read_text()


def test_processes_json_has_start_times(up: Up) -> None:
    rows = json.loads((up.home / "processes.json").read_text())
    for row in rows:
        assert abs(psutil.Process(row["pid"]).create_time() - row["started_at"]) < 60, row
