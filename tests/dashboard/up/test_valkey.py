"""The embedded Valkey keeps what a restart must not lose, and no other server takes its place unasked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from redis import Redis

from dashboard.up import valkey
from dashboard.up.valkey import NoValkey, server_command
from tests.servers import Valkey, short_folder


def test_users_of_nodes_are_there_after_a_restart() -> None:
    with short_folder("ty-users-") as folder:
        server = Valkey(folder / "valkey", durable=True)
        server.start()
        try:
            with Redis.from_url(server.url) as client:
                client.execute_command("ACL", "SETUSER", "node-a", "on", ">secret", "+ping")
                client.acl_save()
            server.kill()
            server.start()
            with Redis.from_url(server.url, username="node-a", password="secret") as client:
                assert client.ping()
        finally:
            server.stop()


@pytest.mark.parametrize("name", ["redis-server", "valkey-server"])
def test_a_server_on_the_path_is_not_taken_unless_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    other = program(tmp_path / name, "echo 'Redis server v=7.0.15 sha=00000000:0'")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert server_command(tmp_path, tmp_path / "s")[0] != str(other)
    monkeypatch.setenv("VALKEY_SERVER", name)
    assert server_command(tmp_path, tmp_path / "s")[0] == str(other)


@pytest.mark.parametrize(
    ("says", "sentence"),
    [
        ("Redis server v=6.2.7 sha=0", "is version 6.2.7; Trainyard needs 7.0 or newer"),
        ("nginx version: 1.2", "is no Valkey or Redis server"),
    ],
)
def test_a_named_server_that_cannot_serve_is_refused_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, sentence: str
) -> None:
    monkeypatch.setenv("VALKEY_SERVER", str(program(tmp_path / "server", f"echo '{says}'")))
    with pytest.raises(NoValkey, match=sentence):
        server_command(tmp_path, tmp_path / "s")


def test_users_that_another_version_wrote_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may not know the commands that they name, and then it does not start."""
    written = Path(users_file_of(server_command(tmp_path, tmp_path / "s")))
    written.write_text(f"{written.read_text()}user node-a on nopass +client|setinfo\n")
    assert users_file_of(server_command(tmp_path, tmp_path / "s")) == str(written)
    assert "node-a" in written.read_text(), "the same version keeps them"
    monkeypatch.setenv("VALKEY_SERVER", str(program(tmp_path / "server", "echo 'Redis server v=7.0.15'")))
    (tmp_path / "users.acl").write_text("user node-b on nopass +client|setinfo\n")
    other = Path(users_file_of(server_command(tmp_path, tmp_path / "s")))
    assert other.read_text().splitlines() == ["user default on nopass ~* &* +@all"]
    assert list(tmp_path.glob("users*.acl")) == [other]


def program(path: Path, line: str) -> Path:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return path


def users_file_of(command: list[str]) -> str:
    return command[command.index("--aclfile") + 1]


def test_a_server_of_somebody_else_that_is_too_old_is_refused_and_one_that_is_away_is_waited_for(
    valkey_server: Valkey, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    valkey.refuse_old_server(valkey_server.url)
    valkey.refuse_old_server("redis://127.0.0.1:1/0")
    said = capsys.readouterr().err
    assert "Valkey does not answer: " in said and "refused. It is waited for." in said and ".." not in said
    with pytest.raises(NoValkey, match="REDIS_URL is no address of a Valkey"):
        valkey.refuse_old_server("here")
    with pytest.raises(NoValkey, match="lets nobody in with the user and password of REDIS_URL: "):
        valkey.refuse_old_server(valkey_server.url.replace("unix://", "unix://nobody:wrong@"))
    monkeypatch.setattr(valkey, "OLDEST", (99, 0))
    with pytest.raises(NoValkey, match=r"of REDIS_URL is version \d+\.\d+\.\d+; Trainyard needs 99\.0 or newer"):
        valkey.refuse_old_server(valkey_server.url)
