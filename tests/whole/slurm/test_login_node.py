"""A server outside of the Slurm cluster: all of Slurm's programs run on a login node, over a real sshd."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.sshd import Sshd, running_hosts
from tests.whole.doctor import doctor
from tests.whole.runs import small
from tests.whole.slurm.conftest import SlurmYard

pytestmark = pytest.mark.extended  # minutes of several processes


@pytest.fixture(scope="module")
def login(yard: SlurmYard) -> Iterator[Sshd]:
    with running_hosts("127.0.0.1") as (host,):
        yield host


def settings_of(login: Sshd, **changes: object) -> dict[str, object]:
    return {
        "ssh_host": login.address,
        "ssh_port": login.port,
        "ssh_user": login.user,
        "ssh_host_key": login.host_key,
        "ssh_key": login.key.read_text(),
        "python": sys.executable,
        **changes,
    }


def test_a_run_is_submitted_followed_and_cancelled_over_ssh(yard: SlurmYard, login: Sshd) -> None:
    yard.make_cluster("outside", **settings_of(login))
    run = yard.submit(small("outside"))
    assert yard.wait_for_end(run)["status"] == "SUCCEEDED", yard.sentence(run)
    second = yard.submit(small("outside", steps=100_000))
    yard.wait_for_step(second, 5)
    yard.end(second)
    well = doctor(yard.up, "outside")
    assert (well.returncode, well.stdout.count("FAILED")) == (0, 0), well.stdout + well.stderr
    assert (login.folder / "sshd.log").read_text().count("Accepted publickey") < 10, "connections are kept"


def test_a_login_node_that_changed_or_went_away_is_a_sentence(yard: SlurmYard, login: Sshd) -> None:
    yard.make_cluster("moved", **settings_of(login))
    login.change_host_key()
    run = yard.submit(small("moved"))
    yard.wait_for_words(run, "shows another host key")
    settings = yard.get("/clusters/moved")["settings"]
    assert "ssh_key" not in settings
    changed = {"settings": {**settings, "ssh_host_key": login.host_key}}
    answer = yard.http.patch("/clusters/moved", json=changed)  # a secret is for the host that it was given for
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "settings.ssh_key")
    changed["settings"]["ssh_key"] = login.key.read_text()
    assert yard.http.patch("/clusters/moved", json=changed).status_code == 200
    assert yard.wait_for_end(run)["status"] == "SUCCEEDED", yard.sentence(run)
    login.stop()
    try:
        second = yard.submit(small("moved"))
        yard.wait_for_words(second, "is not reached")
        ill = doctor(yard.up, "moved")
        assert ill.returncode == 1 and "is not reached" in ill.stdout
    finally:
        login.start()
    assert yard.wait_for_end(second)["status"] == "SUCCEEDED", yard.sentence(second)


def test_what_is_missing_for_a_login_node_is_named(yard: SlurmYard, login: Sshd) -> None:
    for field in ("ssh_user", "ssh_host_key", "python"):
        body = {"name": "x", "engine": "slurm", "settings": {"folder": "/x", **settings_of(login, **{field: ""})}}
        answer = yard.http.post("/clusters", json=body)
        assert answer.status_code == 422 and f"settings.{field}" in answer.text, answer.text
        assert "PRIVATE KEY" not in answer.text
