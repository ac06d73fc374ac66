"""`trainyard sync` against a real server: every record once, whatever interrupts it, and a word for what goes wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runs import actions
from runs.api.training import local as api
from runs.models import Project, Run
from runs.records.metrics.models import Producer, Telemetry
from tests.cast import Cast
from tests.trainyard.command import Trainyard
from tests.up_process import ROOT
from trainyard.contract import records
from trainyard.contract.records import Begin, Group
from trainyard.rest.client import Client
from trainyard.sdk import sync
from trainyard.spooling import frames
from trainyard.spooling.writer import SpoolWriter

pytestmark = pytest.mark.usefixtures("valkey")
Points = Callable[[SpoolWriter, int], None]


def writer(folder: Path, local_id: str, *, rank: int = 0, at: float = 1000.0, **begin: Any) -> SpoolWriter:
    fields = {"script": "/home/ada/train.py", "host": "desk", "rank": rank, "at": at, "role": "script", **begin}
    return SpoolWriter(folder / local_id, begin=Begin(local=local_id, **fields), file_bytes=2000)


def log(spool: SpoolWriter, count: int, first: int = 0) -> None:
    """Write ``count`` points, a frame each."""
    for step in range(first, first + count):
        steps, times = step.to_bytes(8, "little"), bytes(8)
        spool.append(records.Points([Group({}, ("loss",), steps, times, bytes(8))]))


def stored(run_id: str) -> int:
    return Telemetry.objects.get(pk=run_id).num_points


@pytest.fixture
def local_id() -> str:
    return uuid.uuid4().hex


def test_every_record_of_every_process_goes_once_however_often_it_is_called(
    trainyard: Trainyard, tmp_path: Path, local_id: str
) -> None:
    for rank in (0, 1):
        spool = writer(tmp_path, local_id, rank=rank, name="at home" if rank else "")
        log(spool, 50)
        spool.close()
    assert len(list((tmp_path / local_id).iterdir())) > 4, "several files of each process"
    first = trainyard("sync", str(tmp_path))
    assert first.code == 0, first.err
    [run] = Run.objects.all()
    assert (run.name, run.status, run.spec["local"]["host"]) == ("at home", "SUCCEEDED", "desk")
    assert run.pk in first.out and "104 records" in first.out
    again = trainyard("sync", str(tmp_path), "--json")
    assert again.code == 0 and again.err == ""
    [item] = json.loads(again.out)["items"]
    assert (item["frames"], item["local_id"], item["run"]["id"]) == (0, local_id, run.pk)
    assert stored(run.pk) == 100 and Run.objects.count() == 1


def test_each_local_run_below_the_folder_is_a_run_and_nothing_else_is_sent(
    trainyard: Trainyard, tmp_path: Path
) -> None:
    for number, place in enumerate((tmp_path, tmp_path / "deep" / "down")):
        spool = writer(place, uuid.uuid4().hex, at=1000.0 - number)
        log(spool, 1)
        spool.close()
    SpoolWriter(tmp_path / "a-node", begin=Begin(rank=0)).close()
    (tmp_path / f"{uuid.uuid4().hex}.1.spool").write_bytes(b"nonsense")
    (tmp_path / "note.txt").write_text("hello")
    ended = trainyard("sync", str(tmp_path))
    assert ended.code == 0 and Run.objects.count() == 2
    assert {run.name for run in Run.objects.all()} == {"train.py"}


def test_a_run_that_was_killed_and_started_again_under_its_id_has_succeeded(
    trainyard: Trainyard, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, signal, sys, time, trainyard\n"
        "run = trainyard.init(folder=sys.argv[1])\n"
        "run.log({'loss': 1.0}, step=int(sys.argv[2]))\n"
        "time.sleep(1)\n"  # the writing thread has it on disk
        "if sys.argv[3] == 'killed': os.kill(os.getpid(), signal.SIGKILL)\n"
        "sys.exit(3 if sys.argv[3] == 'failed' else 0)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TRAINYARD_LOCAL_RUN": "nightly"}
    for name in ("TRAINYARD_URL", "TRAINYARD_TOKEN"):
        environment.pop(name, None)
    folder = str(tmp_path / "runs")
    expected = {"killed": (-9, "LOST"), "failed": (3, "FAILED"), "whole": (0, "SUCCEEDED")}
    for step, (how, (code, status)) in enumerate(expected.items()):
        done = subprocess.run([sys.executable, str(script), folder, str(step), how], env=environment, check=False)
        assert done.returncode == code
        assert trainyard("sync", folder).code == 0
        run = Run.objects.get()
        assert run.status == status, run.reason_sentence
        if how == "failed":
            assert run.reason_sentence.endswith("ended with exit code 3")
    assert stored(run.pk) == 3


def test_a_process_of_the_same_rank_that_is_still_there_is_not_replaced(
    trainyard: Trainyard, tmp_path: Path, local_id: str
) -> None:
    here = {"rank": -1, "host": os.uname().nodename}
    parent = writer(tmp_path, local_id, **here, pid=os.getpid())
    log(parent, 1)
    child = writer(tmp_path, local_id, **here, pid=2**22 + 1, at=2e9)
    log(child, 1)
    child.close()
    assert trainyard("sync", str(tmp_path)).code == 0
    assert Run.objects.get().status == "LOST", "its parent has not ended"


def test_it_goes_on_while_the_training_writes_and_completes_it_later(
    trainyard: Trainyard, tmp_path: Path, local_id: str
) -> None:
    spool = writer(tmp_path, local_id)
    log(spool, 3)
    with spool.path.open("ab") as file:
        file.write(b"\x50\0\0\0torn")
    ended = trainyard("sync", str(tmp_path))
    run = Run.objects.get()
    assert ended.code == 0 and run.status == "LOST" and "Its end has not arrived" in ended.err
    assert stored(run.pk) == 3, "the torn tail stays where it is"
    os.truncate(spool.path, spool.path.stat().st_size - 8)
    log(spool, 2, first=3)
    spool.close()
    assert trainyard("sync", str(tmp_path)).code == 0
    run.refresh_from_db()
    assert run.status == "SUCCEEDED" and stored(run.pk) == 5


@pytest.mark.parametrize("place", [1, 5, 60])  # in the frame's length, its checksum, its body
def test_what_is_damaged_is_told_and_the_rest_is_sent(
    trainyard: Trainyard, tmp_path: Path, local_id: str, place: int
) -> None:
    spool = writer(tmp_path, local_id)
    log(spool, 2)
    start = spool.path.stat().st_size
    log(spool, 3, first=2)
    spool.close()
    data = bytearray(spool.path.read_bytes())
    data[start + place] ^= 0x0F
    spool.path.write_bytes(data)
    assert trainyard("sync", str(tmp_path)).code == 0
    run = Run.objects.get()
    assert run.status == "SUCCEEDED" and stored(run.pk) == 4
    assert Producer.objects.get(run_id=run.pk).num_dead_letters == 1


def test_batches_are_bounded(
    trainyard: Trainyard, tmp_path: Path, local_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "BATCH_BYTES", 1000)
    monkeypatch.setattr(api, "MAX_BODY_BYTES", 1500)
    spool = writer(tmp_path, local_id)
    log(spool, 100)
    spool.close()
    assert trainyard("sync", str(tmp_path)).code == 0
    assert stored(Run.objects.get().pk) == 100


def test_the_largest_batch_fits_into_a_request() -> None:
    assert sync.BATCH_BYTES + frames.MAX_FRAME_BYTES + frames.HEADER.size <= api.MAX_BODY_BYTES


def test_an_error_an_interrupt_and_what_a_launcher_restarted(trainyard: Trainyard, tmp_path: Path) -> None:
    for reason in ("error: ValueError: no more coal", "interrupt"):
        writer(tmp_path / reason[:5], uuid.uuid4().hex, name=reason[:5]).close(reason)
    restarted = uuid.uuid4().hex
    writer(tmp_path, restarted, name="restarted", restart=0).abandon()
    writer(tmp_path, restarted, name="restarted", restart=1, at=2000.0).close()
    assert trainyard("sync", str(tmp_path)).code == 0
    found = {run.name: (run.status, run.reason_sentence) for run in Run.objects.all()}
    assert found["error"] == ("FAILED", "Rank 0 on desk ended with ValueError: no more coal")
    assert found["inter"][0] == "CANCELLED" and found["restarted"][0] == "SUCCEEDED"


@pytest.mark.parametrize(("words", "code"), [(("nowhere",), 2), ((".",), 1)])
def test_a_folder_without_local_runs_is_a_complaint(
    trainyard: Trainyard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str], code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = trainyard("sync", *words)
    assert ended.code == code and ended.err.strip() and not ended.out
    assert Run.objects.count() == 0


def test_a_project_that_is_not_there_or_not_ones_own(
    trainyard: Trainyard, tmp_path: Path, cast: Cast, local_id: str
) -> None:
    writer(tmp_path, local_id).close()
    missing = trainyard("sync", str(tmp_path), "--project", "nowhere")
    assert missing.code == 1 and "no project 'nowhere'" in missing.err
    other = Project.objects.create(name="other")
    other.memberships.create(user=cast.mate, role="viewer")
    assert "You need to be member" in trainyard("sync", str(tmp_path), "--project", "other").err
    assert trainyard("sync", str(tmp_path)).code == 0
    refused = trainyard("sync", str(tmp_path), "--project", "other")
    assert refused.code == 1 and "sent before, to project default" in refused.err


def test_a_server_that_is_away_loses_nothing(
    trainyard: Trainyard, tmp_path: Path, local_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "PATIENCE_S", ())
    spool = writer(tmp_path, local_id)
    log(spool, 3)
    spool.close()
    url = os.environ["TRAINYARD_URL"]
    monkeypatch.setenv("TRAINYARD_URL", "http://127.0.0.1:9")
    ended = trainyard("sync", str(tmp_path))
    assert ended.code == 3 and "Nothing is lost" in ended.err
    monkeypatch.setenv("TRAINYARD_URL", url)
    assert trainyard("sync", str(tmp_path)).code == 0
    assert stored(Run.objects.get().pk) == 3


def test_it_goes_on_where_it_was_interrupted(
    trainyard: Trainyard, tmp_path: Path, local_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "BATCH_BYTES", 1000)
    spool = writer(tmp_path, local_id)
    log(spool, 100)
    spool.close()
    sent: list[int] = []
    send_frames = Client.send_frames

    def die_at_the_third(client: Client, run: str, data: bytes) -> dict[str, Any]:
        answer = send_frames(client, run, data)
        sent.append(len(data))
        if len(sent) == 3:  # stored, and the answer never read
            raise KeyboardInterrupt
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(Client, "send_frames", die_at_the_third)
        assert trainyard("sync", str(tmp_path)).code == 130
    run = Run.objects.get()
    before = stored(run.pk)
    assert 0 < before < 100
    assert trainyard("sync", str(tmp_path)).code == 0
    run.refresh_from_db()
    assert run.status == "SUCCEEDED" and stored(run.pk) == 100


def test_a_run_that_was_deleted_does_not_come_back_unasked(
    trainyard: Trainyard, tmp_path: Path, cast: Cast, local_id: str
) -> None:
    writer(tmp_path, local_id).close()
    trainyard("sync", str(tmp_path))
    actions.delete_run(actor=cast.mate, run=Run.objects.get())
    gone = trainyard("sync", str(tmp_path))
    assert gone.code == 1 and "--again sends it anew" in gone.err and Run.objects.count() == 0
    assert trainyard("sync", str(tmp_path), "--again").code == 0
    assert Run.objects.count() == 1


def test_a_folder_that_cannot_be_written_is_sent_all_the_same(
    trainyard: Trainyard, tmp_path: Path, local_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer(tmp_path, local_id).close()
    real = Path.write_text

    def refuse(path: Path, *words: Any, **more: Any) -> int:
        if path.name.startswith("sent"):
            raise PermissionError(13, "Permission denied")
        return real(path, *words, **more)

    monkeypatch.setattr(Path, "write_text", refuse)  # as root, a mode would not stop us
    assert trainyard("sync", str(tmp_path)).code == 0
    assert Run.objects.count() == 1


def test_follow_goes_on_until_the_training_has_ended(
    trainyard: Trainyard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainyard.cli.importing.POLL_S", 0.05)
    script = tmp_path / "train.py"
    script.write_text("""
import sys, time, trainyard
run = trainyard.init("followed")
run.log({"loss": 1.0})
print("begun", flush=True)
sys.stdin.readline()
run.log({"loss": 0.5})
""")
    training = subprocess.Popen(
        [sys.executable, str(script)], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert training.stdin is not None and training.stdout is not None
    training.stdout.readline()
    spools = tmp_path / "trainyard-spool"
    while not (spools.exists() and sync.find(spools)):  # a thread of the training's makes it
        assert training.poll() is None
    find = sync.find

    def find_and_let_it_go_on(folder: Path) -> list[sync.LocalRun]:
        if not training.stdin.closed and Run.objects.filter(status__in=("LOST", "RUNNING")).exists():
            training.stdin.close()
        return find(folder)

    monkeypatch.setattr(sync, "find", find_and_let_it_go_on)
    ended = trainyard("sync", str(spools), "--follow", "--json")
    assert ended.code == 0 and training.wait(30) == 0
    training.stdout.close()
    [item] = json.loads(ended.out)["items"]
    assert item["run"]["status"] == "SUCCEEDED" and item["run"]["name"] == "followed"
    assert stored(item["run"]["id"]) == 2
