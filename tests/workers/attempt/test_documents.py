"""What lies in an attempt's folder: written by the previous version, damaged, or as it should be."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import structlog

from trainyard.contract.desired import TraceRequest
from trainyard.contract.orders import CodeReference, Order
from trainyard.contract.reports import AttemptReport, RankError, SavedStep
from trainyard.contract.statuses import Phase
from workers.attempt.documents import FileStamps, RankExit, SentOutput, read_document, write_document
from workers.attempt.folder import AttemptFolder, attempts_in
from workers.machine.processes import Process
from workers.node.attempts import SETTLED_S, Attempts
from workers.transport.node_config import NodeConfig

PREVIOUS = Path(__file__).parent / "previous"  # files as the version before typed documents wrote them
ENDED, NEVER_STARTED, READY = "4f0c2a917b3e", "93d1c0ffee00", "0a1b2c3d4e5f"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A node's home that the previous version left."""
    shutil.copytree(PREVIOUS, tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def ended(home: Path) -> AttemptFolder:
    return AttemptFolder(home / "attempts" / ENDED)


def test_a_file_that_a_script_has_leased_ends_nobody_who_reads_it(tmp_path: Path) -> None:
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # by which the kernel asks the owner, here this process, to let go
    write_document(tmp_path / "exit.json", RankExit(3))
    with (tmp_path / "exit.json").open("r+b") as leased:
        fcntl.fcntl(leased, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        assert read_document(tmp_path / "exit.json", RankExit) is None
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    assert read_document(tmp_path / "exit.json", RankExit) == RankExit(3)


def test_an_order_of_the_previous_version_is_read(ended: AttemptFolder) -> None:
    order = ended.order()
    assert order is not None
    assert (order.run, order.fence, order.node_name, order.slots) == ("r7kq2m", 2, "local-1", [0, 1])
    assert order.code == CodeReference("ab" * 32, 1234)
    assert order.spec["task"]["arguments"] == ["--lr", "3e-4"]


def test_the_package_that_ranks_import_is_open_to_their_user_whatever_the_umask(
    ended: AttemptFolder, tmp_path: Path
) -> None:
    order = ended.order()
    assert order is not None
    folder = AttemptFolder(tmp_path / "attempts" / READY)
    umask = os.umask(0o077)
    try:
        folder.create(order)
    finally:
        os.umask(umask)
    assert folder.sdk.stat().st_mode & 0o777 == 0o755
    assert folder.code.stat().st_mode & 0o777 == 0o700


def test_a_report_of_the_previous_version_is_read(ended: AttemptFolder) -> None:
    report = ended.report()
    assert report is not None and report.reason is not None
    assert (report.phase, report.producers, ended.is_ended()) == (Phase.ENDED, {"p" * 32: 17}, True)
    assert report.reason.sentence == "Rank 1 on local-1 raised ValueError: no"
    assert [(rank.pid, rank.exit_code, rank.signal) for rank in report.ranks] == [(101, None, 9), (102, 1, None)]
    assert report.ranks[1].error == RankError("ValueError", "no", "Traceback…\nValueError: no\n")


def test_other_files_of_the_previous_version_are_read(ended: AttemptFolder) -> None:
    assert ended.recorded_processes() == [Process(101, 5000), Process(102, 5001)]
    stamp = [1000, 1_700_000_000_000_000_000]
    sent = SentOutput({"model.pt": [*stamp], "latest.pt": [*stamp, "model.pt"]}, {"big": "Too large."})
    assert ended.output_sent() == sent
    assert read_document(ended.path / "code.json", FileStamps) == {"train.py": [120, stamp[1]]}
    assert read_document(ended.trace_path, TraceRequest) == TraceRequest("t1", 10, 3)
    assert read_document(ended.stopped_path, SavedStep) == SavedStep(35, True)
    assert read_document(ended.error_path(1), RankError) == RankError(
        "ValueError", "no", "Traceback…\nValueError: no\n"
    )
    assert read_document(ended.exit_path(1), RankExit) == RankExit(3)


def test_an_attempt_that_never_started_under_the_previous_version_is_read(home: Path) -> None:
    folder = AttemptFolder(home / "attempts" / NEVER_STARTED)
    order, report = folder.order(), folder.report()
    assert order is not None and report is not None and report.reason is not None
    assert (order.attempt, order.run, order.fence) == (NEVER_STARTED, "r7kq2m", 1)
    assert (report.phase, report.reason.code, report.ranks) == (Phase.ENDED, "stopped", [])


def test_a_node_lists_what_the_previous_version_left(home: Path, attempts: Attempts) -> None:
    attempts.adopt()
    listed = attempts.listed()
    assert {attempt: one.phase for attempt, one in listed.items()} == {
        ENDED: "ended", NEVER_STARTED: "ended", READY: "ready",
    }  # fmt: skip
    output = listed[ENDED].output
    assert output is not None and output.refused == {"big": "Too large."}


@pytest.fixture
def attempts(home: Path) -> Attempts:
    config = NodeConfig("http://127.0.0.1:9", "n1", "local-1", "00" * 32, "unix:///none", "local")
    nobody: Any = None  # neither a warm process nor a server is asked
    return Attempts(config, home, address="127.0.0.1", zygote=nobody, source=nobody, finished=nobody)


def test_an_attempt_that_the_server_knows_to_be_done_is_listed_no_more(
    ended: AttemptFolder, attempts: Attempts
) -> None:
    attempts.adopt()
    for mark in (ended.shipped_mark, ended.uploaded_mark, ended.decided_mark):
        mark.touch()
    for at in (1000.0, 1000.0 + SETTLED_S):
        attempts.settle((), at)
        assert ENDED in attempts.listed()
    attempts.settle((), 1001.0 + SETTLED_S)
    assert set(attempts.listed()) == {NEVER_STARTED, READY}
    attempts.settle({ENDED}, 1002.0 + SETTLED_S)  # its other nodes are not over yet: the server wants to know of it
    assert ENDED in attempts.listed()


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    folder = AttemptFolder(tmp_path / "a")
    order = Order(attempt="a", run="r", fence=1, spec={"task": {"script": "train.py"}})
    folder.create(order)
    report = AttemptReport(at=1.0, attempt="a", run="r", fence=1, node="n", phase=Phase.READY, port=5)
    folder.write_report(report)
    folder.record_processes([Process(1, 2)])
    again = AttemptFolder(folder.path)
    assert (again.order(), again.report(), again.recorded_processes()) == (order, report, [Process(1, 2)])


DAMAGE: list[tuple[str, str]] = [
    ('{"attempt": "a", "run": "r", "fence": "three"}', "fence: Expected `int`"),
    ('{"attempt": "a", "fence": 1}', "run"),
    ('["a", "r", 1]', "the document: "),
    ('{"attempt": "a", "run": ', "it cannot be read"),
    ("", "it cannot be read"),
]


@pytest.mark.parametrize(("text", "problem"), DAMAGE)
def test_a_damaged_order_is_none_and_the_log_names_the_field_once(tmp_path: Path, text: str, problem: str) -> None:
    folder = AttemptFolder(tmp_path)
    (tmp_path / "order.json").write_text(text)
    with structlog.testing.capture_logs() as logs:
        assert folder.order() is None and folder.order() is None
    assert len(logs) == 1
    assert logs[0]["event"] == "file.refused" and logs[0]["path"] == str(tmp_path / "order.json")
    assert problem in logs[0]["error"]


def test_a_folder_with_a_damaged_order_is_left_alone_and_the_others_are_adopted(home: Path, attempts: Attempts) -> None:
    (home / "attempts" / ENDED / "order.json").write_text(json.dumps({"attempt": ENDED, "run": 7, "fence": 2}))
    attempts.adopt()
    assert set(attempts.listed()) == {NEVER_STARTED, READY}
    assert (home / "attempts" / ENDED / "report.json").exists()
    assert len(list(attempts_in(home))) == 3


@pytest.mark.parametrize("error", [{"type": 5}, [1], "text", {"type": "E", "message": ["no"]}])
def test_what_a_script_writes_in_place_of_its_error_is_none(tmp_path: Path, error: object) -> None:
    path = tmp_path / "rank-0.error.json"
    write_document(path, error)
    assert read_document(path, RankError) is None
