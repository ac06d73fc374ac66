"""What `up` says, in one sentence, when it cannot start; and that it then leaves nothing behind."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.up import checks
from dashboard.up.checks import CannotStart, number, prepare_home
from tests.servers import free_port, short_folder, start_postgresql
from tests.up_process import Up, new_home


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder("ty-") as folder:
        yield folder


def refused(up: Up) -> str:
    """Return the one sentence that it says before it exits with 1."""
    try:
        assert up.wait_for_end() == 1, up.output
        assert "Traceback" not in up.output
        return up.output
    finally:
        up.close()


@pytest.mark.parametrize("port", ["eighty", "70000"])
def test_a_port_that_is_none_is_refused(folder: Path, port: str) -> None:
    assert "PORT" in refused(Up(folder / "home", "--port", port))


def test_a_taken_port_is_named_and_that_of_the_command_line_goes_first(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = refused(Up(folder / "home", "--port", str(port), PORT="0"))
    assert f"127.0.0.1:{port} cannot be listened on" in said


def test_an_address_of_another_machine_is_named(folder: Path) -> None:
    assert "HOST is 'no.such.host.invalid'" in refused(Up(folder / "home", HOST="no.such.host.invalid"))


def test_a_home_that_cannot_be_written_to_is_named(folder: Path) -> None:
    (folder / "home").write_text("a file is in its place")
    assert f"The home {folder / 'home'} cannot be written to" in refused(Up(folder / "home"))


def test_a_home_that_is_a_link_of_somebody_is_refused(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    (folder / "home").symlink_to(folder / "elsewhere")
    with pytest.raises(CannotStart, match="is not a folder of yours"):
        prepare_home(folder / "home")


def test_a_database_that_does_not_answer_is_named_without_its_password(folder: Path) -> None:
    port = free_port()
    url = f"postgresql://somebody:hunter2@127.0.0.1:{port}/train"
    said = refused(Up(folder / "home", DATABASE_URL=url))
    assert f"The database train on 127.0.0.1:{port} cannot be reached" in said
    assert "hunter2" not in said


def test_a_database_of_another_kind_is_refused(folder: Path) -> None:
    assert "DATABASE_URL starts with 'mysql'" in refused(Up(folder / "home", DATABASE_URL="mysql://localhost/train"))


@pytest.mark.parametrize(
    ("setting", "value"), [("AUDIT_OTLP", "https://[collector:4318"), ("AUDIT_SYSLOG", "collector:601")]
)
def test_a_collector_that_is_none_is_named_with_its_setting(folder: Path, setting: str, value: str) -> None:
    said = refused(Up(folder / "home", **{setting: value}))
    assert f"{setting} is " in said and value in said


def test_a_number_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODES", "two")
    with pytest.raises(CannotStart, match="NODES is 'two'; it takes a number from 0 to 64"):
        number("NODES", 2, 64)


def test_the_second_up_of_a_home_says_who_has_it(folder: Path) -> None:
    home = folder / "home"
    first = Up(home)
    try:
        first.wait_until_said("Starting Trainyard")
        said = refused(Up(home))
        assert f"Trainyard already runs in {home} (process {first.process.pid}, http://127.0.0.1:" in said
    finally:
        first.close()


def test_a_lock_is_free_again_when_its_holder_is_gone(folder: Path) -> None:
    first = Up(folder)
    first.wait_until_said("Starting Trainyard")
    first.process.kill()
    first.close()
    checks.lock_home(folder)


def test_a_child_that_does_not_start_is_named_with_its_last_line(folder: Path) -> None:
    home = new_home(folder)
    (home / "valkey" / "appendonlydir").mkdir(parents=True)
    (home / "valkey" / "appendonlydir" / "appendonly.aof.manifest").write_text("of another server\n")
    said = refused(Up(home))
    assert "valkey does not start: it ended 5 times, in the end with" in said and "AOF manifest" in said


@pytest.mark.extended
@pytest.mark.postgres
def test_the_second_up_on_a_database_with_a_valkey_of_its_own_is_told_of_the_first(folder: Path) -> None:
    server = start_postgresql(folder)
    if server is None:
        pytest.skip("PostgreSQL's server programs are not on this machine")
    try:
        first = Up(folder / "one", DATABASE_URL=server.url, NODES="1")
        try:
            first.wait_until_said("Nodes in contact: local-1")
            said = refused(Up(folder / "two", DATABASE_URL=server.url, NODES="1"))
            assert "control does not start" in said and "Another control works on this database" in said
            assert first.process.poll() is None and "ended with" not in first.output
        finally:
            first.close()
    finally:
        server.stop()
