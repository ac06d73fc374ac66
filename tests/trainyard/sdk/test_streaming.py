"""A script outside of Trainyard with TRAINYARD_URL: its run is on the server while it goes on, whatever goes wrong."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

import trainyard as package
from runs.life.reconcile import tick
from runs.models import Membership, Project, Role, Run
from runs.records.metrics.models import Producer, Telemetry
from tests.cast import Cast
from tests.trainyard.command import Trainyard
from tests.up_process import ROOT, wait_until
from trainyard.sdk import local_run as local
from trainyard.sdk import process_run as sdk
from trainyard.sdk import sender

pytestmark = pytest.mark.usefixtures("valkey")
Start = Callable[..., subprocess.Popen[str]]
LOG = "import trainyard; run = trainyard.init('live'); run.log({'loss': 1.0}); "


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """``start(text)``: a script in a process of its own."""
    started: list[subprocess.Popen[str]] = []

    def run(text: str, **variables: str) -> subprocess.Popen[str]:
        script = tmp_path / "train.py"
        script.write_text(text)
        inherited = {name: value for name, value in os.environ.items() if name != local.VARIABLE}
        training = subprocess.Popen(
            [sys.executable, str(script)], cwd=tmp_path, env={**inherited, "PYTHONPATH": str(ROOT), **variables},
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        started.append(training)
        return training

    yield run
    for training in started:
        if training.poll() is None:
            training.kill()
            training.communicate()


def stored() -> int:
    return sum(Telemetry.objects.values_list("num_points", flat=True))


@pytest.fixture
def deaf() -> Iterator[str]:
    """The address of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def at_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process is no rank."""
    monkeypatch.delenv(local.VARIABLE, raising=False)
    monkeypatch.setattr(local, "_own", (0, ""))
    yield
    if sdk._run is not None:
        sdk._run.finish()
        sdk._run = None


def test_what_is_logged_arrives_while_the_script_goes_on(trainyard: Trainyard, start: Start, tmp_path: Path) -> None:
    training = start(LOG + "input(); run.log({'loss': 0.5}); input(); run.log({'loss': 0.2})")
    assert training.stdin is not None
    for number in (1, 2):
        wait_until(lambda number=number: stored() == number, f"{number} points are there", patience_s=30)  # type: ignore[misc]
        assert training.poll() is None
        training.stdin.write("\n")
        training.stdin.flush()
    _, said = training.communicate(timeout=30)
    run = Run.objects.get()
    assert (training.returncode, run.status, stored()) == (0, "SUCCEEDED", 3), said
    assert said.count(f"/runs/{run.pk}/") == 2 and "everything was sent" in said
    again = trainyard("sync", str(tmp_path / "trainyard-spool"), "--json")
    assert '"frames": 0' in again.out


def test_children_send_nothing_twice_and_one_process_sends_for_all(trainyard: Trainyard, start: Start) -> None:
    text = (
        LOG
        + """
import os, time
for child in range(3):
    if os.fork() == 0:
        run.log({"child": 1.0}, labels={"child": str(child)})
        if child:
            run.finish()
        time.sleep(0.5)
        os._exit(0)
for _ in range(3):
    os.wait()
"""
    )
    _, said = start(text).communicate(timeout=60)
    assert (Run.objects.count(), Producer.objects.count(), stored()) == (1, 4, 4), said
    assert said.count("to be seen") == 1


def test_another_process_goes_on_where_the_sending_one_ended(trainyard: Trainyard, start: Start) -> None:
    first, second = (start(LOG + "input()", TRAINYARD_LOCAL_RUN="job 7") for _ in range(2))
    wait_until(lambda: stored() == 2, "the points of both are there", patience_s=30)
    first.communicate("\n", timeout=30)
    assert Run.objects.get().status == "RUNNING" and second.poll() is None
    second.communicate("\n", timeout=30)
    assert (Run.objects.get().status, stored()) == ("SUCCEEDED", 2)


def test_it_is_running_while_it_lives_and_lost_once_it_is_silent(trainyard: Trainyard, start: Start) -> None:
    training = start(LOG + "input(); run.finish()")
    wait_until(lambda: stored() == 1, "the point is there", patience_s=30)
    run = Run.objects.get()
    assert run.status == "RUNNING" and run.heartbeat_at is not None
    now = timezone.now()
    assert tick(now - timedelta(seconds=1)) and tick(now)
    run.refresh_from_db()
    assert run.status == "RUNNING"
    training.kill()
    training.communicate()
    for ago in range(40, -1, -1):  # control goes on, and hears nothing more
        tick(now + timedelta(seconds=60 - ago))
    run.refresh_from_db()
    assert run.status == "LOST" and "Nothing was heard of it since" in run.reason_sentence


def test_a_script_names_the_project_that_its_run_goes_to(
    trainyard: Trainyard, cast: Cast, start: Start, tmp_path: Path
) -> None:
    vision = Project.objects.create(name="vision")
    member = Membership.objects.create(project=vision, user=cast.mate, role=Role.MEMBER)
    text = "import trainyard; run = trainyard.init(project='vision'); run.log({'loss': 1.0}); run.finish()"
    _, said = start(text).communicate(timeout=60)
    assert Run.objects.get().project == vision, said
    member.delete()
    _, said = start(text.replace("run.finish()", "import time; time.sleep(3); run.finish()")).communicate(timeout=60)
    assert "There is no project 'vision' that you can see" in said and Run.objects.count() == 1


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({"TRAINYARD_URL": "http://127.0.0.1:9"}, "cannot reach"),
        ({"TRAINYARD_URL": "nonsense"}, "cannot reach"),
        ({"TRAINYARD_TOKEN": "ty_wrong"}, "token"),
        ({"TRAINYARD_TOKEN": ""}, "no token"),
    ],
)
def test_what_is_wrong_costs_a_warning_and_never_a_step(
    trainyard: Trainyard, start: Start, tmp_path: Path, variables: dict[str, str], why: str
) -> None:
    text = (
        LOG
        + """
import time
for step in range(30):
    began = time.perf_counter()
    run.log({"loss": 0.5})
    assert time.perf_counter() - began < 0.5
    time.sleep(0.1)
"""
    )
    training = start(text, **variables)
    _, said = training.communicate(timeout=60)
    assert training.returncode == 0 and why in said, said
    assert said.count("the run ") == 1 and said.count("\n") <= 2 and "trainyard sync" in said
    assert not Run.objects.exists()
    assert trainyard("sync", str(tmp_path / "trainyard-spool")).code == 0
    assert (Run.objects.get().status, stored()) == ("SUCCEEDED", 31)


@pytest.mark.usefixtures("at_home")
def test_the_end_waits_for_a_server_that_never_answers_no_longer_than_said(
    tmp_path: Path, deaf: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TRAINYARD_URL", deaf)
    monkeypatch.setenv("TRAINYARD_TOKEN", "ty_any")
    monkeypatch.setattr(sender, "FINISH_TIMEOUT_S", 0.5)
    run = package.init("deaf", folder=tmp_path)
    run.log({"loss": 1.0})
    began = time.monotonic()
    run.finish()
    assert time.monotonic() - began < 3
    assert "not everything was sent" in caplog.text and f"trainyard sync {run.folder}" in caplog.text


@pytest.mark.usefixtures("at_home")
def test_nothing_is_sent_where_nobody_said_where_to(tmp_path: Path) -> None:
    before = set(threading.enumerate())  # a sender of the tests before may still wait for its server
    run = package.init("quiet", folder=tmp_path)
    run.log({"loss": 1.0})
    assert "trainyard-stream" not in {thread.name for thread in set(threading.enumerate()) - before}
    run.finish()
    assert sorted(path.suffix for path in run.folder.iterdir()) == [".spool"]
