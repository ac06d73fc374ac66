"""Real `ssh` and `sshd`: who is let in, whom we believe, and what is said where it does not work."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runs.engines.openssh import client
from runs.engines.openssh.client import OpenSsh
from runs.engines.openssh.target import Target
from runs.engines.refusals import SystemAway
from tests.sshd import Sshd, make_key, running_hosts

pytestmark = pytest.mark.extended  # sshd, and limits that pass


@pytest.fixture(autouse=True)
def home(settings: object, tmp_path: Path) -> None:
    settings.HOME = tmp_path  # type: ignore[attr-defined]


@pytest.fixture
def host() -> Iterator[Sshd]:
    with running_hosts("127.0.0.1") as (one,):
        yield one
        for socket in list(client._open_sockets):
            client.close(socket)


def ssh_to(host: Sshd, **changes: str) -> OpenSsh:
    values = {"host": host.address, "user": host.user, "host_key": host.host_key, **changes}
    return OpenSsh(Target(**values, port=host.port), host.key)  # type: ignore[arg-type]


def test_words_and_input_arrive_as_they_are(host: Sshd) -> None:
    odd = "a b'c\"d$HOME;`id`\n*"
    done = ssh_to(host).run(["/usr/bin/printf", "%s|", odd, "ä"])
    assert (done.code, done.output) == (0, f"{odd}|ä|")
    assert ssh_to(host).run(["cat"], "one\ntwo").output == "one\ntwo"
    assert ssh_to(host).run(["/bin/sh", "-c", "echo no >&2; exit 3"]) == (3, "", "no\n")


def test_a_connection_is_kept(host: Sshd) -> None:
    ssh_to(host).run(["true"])
    assert "Accepted publickey" in (log := (host.folder / "sshd.log").read_text())
    for _ in range(3):
        ssh_to(host).run(["true"])
    assert (host.folder / "sshd.log").read_text().count("Accepted publickey") == log.count("Accepted publickey") == 1


def test_another_host_key_is_a_sentence_with_what_to_do(host: Sshd) -> None:
    known = ssh_to(host)
    known.run(["true"])
    host.change_host_key()
    with pytest.raises(SystemAway, match=r"shows another host key .*`ssh-keyscan -p \d+ 127\.0\.0\.1`"):
        known.run(["true"])
    ssh_to(host).run(["true"])


def test_a_key_that_is_not_let_in_is_a_sentence(host: Sshd, tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    stranger = OpenSsh(ssh_to(host).target, tmp_path / "other")
    with pytest.raises(SystemAway, match="does not let the server in with its key"):
        stranger.run(["true"])


def test_a_host_that_is_away_is_a_sentence(host: Sshd) -> None:
    here = ssh_to(host)
    here.run(["true"])
    host.stop()
    with pytest.raises(SystemAway, match=r"is not reached: connect to host 127\.0\.0\.1 port .* Connection refused"):
        here.run(["true"])
    host.start()
    assert here.run(["true"]).code == 0


def test_a_program_that_does_not_end_is_given_up(host: Sshd) -> None:
    here = ssh_to(host)
    here.run(["true"])
    began = time.monotonic()
    with pytest.raises(SystemAway, match=r"did not answer within 1 s\."):
        here.run(["sleep", "60"], limit_s=1)
    assert time.monotonic() - began < 10
    assert here.run(["true"]).code == 0


def test_nothing_of_the_servers_environment_goes_there(host: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "secret")
    assert "secret" not in ssh_to(host).run(["env"]).output
    assert os.environ["SECRET_KEY"] == "secret"
