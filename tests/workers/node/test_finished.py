"""An attempt that is over is worked on until it is done, and then deleted; threads survive what they do not expect."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.servers import Valkey
from tests.workers.control import ControlledNode, until
from tests.workers.stream import KEY, ORDER, fill
from trainyard.contract.desired import Desired, DesiredAttempt
from trainyard.contract.reports import AttemptReport
from trainyard.contract.seals import down_key, report_key, seal
from trainyard.contract.statuses import Phase, WantedPhase
from workers.attempt.documents import StartRequest
from workers.attempt.folder import AttemptFolder
from workers.node import finished as module
from workers.node import zygote_keeper
from workers.node.finished import FinishedAttempts
from workers.node.server_client import ServerClient
from workers.node.zygote_keeper import ZygoteKeeper, ZygoteUnavailable
from workers.sandbox.node import Isolation
from workers.supervisor.contact import Contact
from workers.supervisor.records.shipper import Shipper
from workers.supervisor.reports import make_report
from workers.supervisor.valkey_thread import ValkeyThread
from workers.transport.desired_reader import connect
from workers.transport.node_config import NodeConfig, make_home

SCRIPT = "print('hello')"


@pytest.fixture
def folder(home: Path) -> AttemptFolder:
    """An attempt that ended here, with three frames in its spool and nothing to upload."""
    make_home(home)
    folder = AttemptFolder(home / "attempts" / "a")
    order = replace(ORDER, first_rank=1)
    folder.create(order)
    fill(folder.spool, 2)
    folder.write_report(make_report(order, at=time.time(), phase=Phase.ENDED, producers={"p" * 32: 3}))
    return folder


@pytest.fixture
def finished(valkey: Valkey) -> FinishedAttempts:
    config = NodeConfig("http://127.0.0.1:9", "n", "one", KEY, valkey.url, "local")
    return FinishedAttempts(config, connect(valkey.url), ServerClient(config))


def entry(*, is_gone: bool = False, **watermarks: int) -> DesiredAttempt:
    return DesiredAttempt(run="r", fence=3, wanted=WantedPhase.STOP, watermarks=watermarks, is_gone=is_gone)


def test_an_attempt_is_done_when_the_server_has_all_of_it(
    folder: AttemptFolder, finished: FinishedAttempts, valkey: Valkey
) -> None:
    finished.advance(folder, None)
    assert not folder.is_done()
    finished.advance(folder, entry(**{"p" * 32: 3}))
    assert folder.is_done()
    assert AttemptFolder(folder.path).is_done(), "a node worker that starts anew knows it, too"


def test_nothing_is_sent_of_a_run_that_was_deleted(
    folder: AttemptFolder, finished: FinishedAttempts, valkey: Valkey
) -> None:
    finished.advance(folder, entry(is_gone=True))
    assert folder.is_done()


def test_the_valkey_thread_does_not_wait_for_a_run_that_was_deleted(valkey: Valkey, tmp_path: Path) -> None:
    fill(tmp_path, 2)
    with connect(valkey.url) as client:
        contact = Contact(client, KEY, ORDER)
        thread = ValkeyThread(contact, Shipper(client, KEY, ORDER, tmp_path, contact), lambda: None)  # type: ignore[arg-type,return-value]
        thread.start()
        gone = Desired(at=1.0, attempts={ORDER.attempt: entry(is_gone=True)})
        client.set(down_key(ORDER.node), seal(KEY, down_key(ORDER.node), gone))
        began = time.monotonic()
        assert not thread.finish({"p" * 32: 3}, limit_s=60)
        assert time.monotonic() - began < 30


def test_the_end_is_reported_before_the_output_is_uploaded(
    folder: AttemptFolder, finished: FinishedAttempts, valkey: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    with connect(valkey.url) as client:

        def upload(*_: object) -> None:
            seen.append(client.get(report_key("n", folder.attempt)))

        monkeypatch.setattr(module, "upload_output", upload)
        folder.create(replace(ORDER, first_rank=0))
        finished.advance(folder, entry())
    assert seen and seen[0] is not None


def test_what_has_not_arrived_keeps_an_attempt_from_being_done(
    folder: AttemptFolder, finished: FinishedAttempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHIPPING_LIMIT_S", 0.2)
    finished.advance(folder, entry(**{"p" * 32: 2}))
    assert not folder.is_done()


def test_a_folder_is_forgotten_after_a_day(
    folder: AttemptFolder, finished: FinishedAttempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished.advance(folder, entry(**{"p" * 32: 3}))
    assert not finished.advance(folder, None)
    monkeypatch.setattr(module, "KEEP_S", 0.0)
    assert finished.advance(folder, None)
    assert not folder.path.exists()


def test_what_has_not_arrived_is_kept_for_longer_than_a_day(
    folder: AttemptFolder, finished: FinishedAttempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node worker that starts while the server is away reads of no attempt, and must not take that for a decision."""
    monkeypatch.setattr(module, "KEEP_S", 0.0)
    assert not finished.advance(folder, None)
    assert folder.path.exists()
    monkeypatch.setattr(module, "UNSENT_KEPT_S", 0.0)
    assert finished.advance(folder, None)


def test_a_node_says_that_it_is_done(calm_node: ControlledNode) -> None:
    order = calm_node.order(SCRIPT, first_rank=1)
    calm_node.launch(order)
    report = calm_node.wait_for(order, "ended")

    def is_done() -> Any:
        calm_node.say(order, wanted="stop", watermarks=report["producers"])
        return (calm_node.up() or {"attempts": {}})["attempts"].get(order["attempt"], {}).get("is_done")

    until(is_done)


def test_the_valkey_thread_survives_what_it_does_not_expect(valkey: Valkey, tmp_path: Path) -> None:
    with connect(valkey.url) as client:
        contact = Contact(client, KEY, ORDER)
        calls: list[int] = []

        def report() -> AttemptReport:
            calls.append(1)
            if len(calls) == 1:
                raise ValueError("nobody expected this")
            return make_report(ORDER, at=time.time(), phase=Phase.RUNNING)

        thread = ValkeyThread(contact, Shipper(client, KEY, ORDER, tmp_path, contact), report)
        thread.start()
        until(lambda: len(calls) > 1)
        assert thread.finish({}, limit_s=1)


def test_a_warm_process_that_cannot_be_started_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper, tries = running_keeper(monkeypatch)
    until(lambda: len(tries) > 2)
    keeper.stop()


def test_waiting_for_a_warm_process_ends_when_there_will_be_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper, tries = running_keeper(monkeypatch)
    until(lambda: tries)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(keeper.start_supervisor, start_request(home))
        keeper.stop()
        with pytest.raises(ZygoteUnavailable):
            asked.result(timeout=zygote_keeper.START_LIMIT_S / 4)


def test_whoever_waits_for_a_warm_process_that_dies_at_each_start_is_told_how(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    keeper = ZygoteKeeper(-1)
    threading.Thread(target=keeper.keep, daemon=True).start()
    began = time.monotonic()
    with pytest.raises(ZygoteUnavailable, match=r"its warm process ended \d+ times before it was ready \(status 1\)"):
        keeper.start_supervisor(start_request(home))
    assert time.monotonic() - began < zygote_keeper.START_LIMIT_S / 2
    keeper.stop()


def start_request(folder: Path) -> StartRequest:
    return StartRequest(str(folder), str(folder), Isolation(), "127.0.0.1", str(folder), str(folder))


def running_keeper(monkeypatch: pytest.MonkeyPatch) -> tuple[ZygoteKeeper, list[int]]:
    tries: list[int] = []

    def refuse(*_: object, **__: object) -> None:
        tries.append(1)
        raise BlockingIOError("no more processes")

    monkeypatch.setattr("subprocess.Popen", refuse)
    keeper = ZygoteKeeper(-1)
    threading.Thread(target=keeper.keep, daemon=True).start()
    return keeper, tries


def test_a_warm_process_that_hangs_is_replaced(
    home: Path, monkeypatch: pytest.MonkeyPatch, python_without_torch: Path
) -> None:
    monkeypatch.setattr(zygote_keeper, "FORK_LIMIT_S", 0.3)
    monkeypatch.setattr("sys.executable", str(python_without_torch))
    keeper = ZygoteKeeper(-1)
    thread = threading.Thread(target=keeper.keep, daemon=True)
    thread.start()
    try:
        until(lambda: keeper.is_ready)
        hung = keeper.pid
        assert hung is not None
        os.kill(hung, signal.SIGSTOP)
        with pytest.raises(ZygoteUnavailable):
            keeper.start_supervisor(start_request(home))
        until(lambda: keeper.pid != hung)
    finally:
        keeper.stop()
        thread.join()


def test_one_order_that_makes_no_sense_does_not_hold_up_the_others(bare_node: ControlledNode) -> None:
    odd = bare_node.order(SCRIPT)
    order = bare_node.order(SCRIPT)
    bare_node.attempts[odd["attempt"]] = {"run": odd["run"], "fence": 1, "wanted": "prepare", "order": {}, "go": None}
    unread = bare_node.order(SCRIPT)
    bare_node.attempts[unread["attempt"]] = {
        "run": unread["run"], "fence": 1, "wanted": "prepare", "order": bare_node.locked({**unread, "slots": "all"}),
    }  # fmt: skip
    bare_node.say(order)
    bare_node.wait_for(order, "ready")
    until(lambda: "slots" in bare_node.log() and f"{odd['attempt']}: order" in bare_node.log())
    troubles = until(lambda: (bare_node.up() or {}).get("troubles"))
    assert troubles[unread["attempt"]].startswith("this node cannot read the order")


def test_of_a_project_that_encrypts_nothing_stays_that_ranks_wrote_once_the_server_has_it(
    folder: AttemptFolder, finished: FinishedAttempts
) -> None:
    folder = AttemptFolder(folder.path)
    folder.create(replace(ORDER, first_rank=1, encrypts=True))
    (folder.logs / "rank-0.stdout").write_text("a line")
    finished.advance(folder, entry(**{"p" * 32: 2}))
    assert (folder.logs / "rank-0.stdout").exists(), "the server does not have the last frame"
    finished.advance(folder, entry(**{"p" * 32: 3}))
    assert not any(one.exists() for one in folder.writable_folders)
    assert folder.report() is not None and AttemptFolder(folder.path).is_done()
    assert not finished.advance(folder, None)
