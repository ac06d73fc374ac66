"""What is over is looked after until it is done, and then forgotten; threads that nobody sees die go on instead."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.servers import Valkey
from tests.workers.control import ControlledNode, until
from tests.workers.stream import KEY, ORDER, fill
from workers.attempt.folder import AttemptFolder
from workers.contract import Document, down_key, report_key, seal
from workers.node import finished as afterlife
from workers.node import zygote_keeper as warm
from workers.node.config import NodeConfig, make_home
from workers.node.finished import Afterlife
from workers.node.server_client import ServerClient
from workers.node.zygote_keeper import ZygoteGone, ZygoteKeeper
from workers.supervisor.contact import Contact, connect
from workers.supervisor.records.courier import Courier
from workers.supervisor.records.shipper import Shipper
from workers.supervisor.reports import make_report

SCRIPT = "print('hello')"


@pytest.fixture
def folder(home: Path) -> AttemptFolder:
    """An attempt that ended here, with three frames in its spool and nothing to upload."""
    make_home(home)
    folder = AttemptFolder(home / "attempts" / "a")
    order = {**ORDER, "first_rank": 1}
    folder.create(order)
    fill(folder.spool, 2)
    folder.write_report(make_report(order, at=time.time(), phase="ended", producers={"p" * 32: 3}))
    return folder


@pytest.fixture
def keeper_of_the_dead(valkey: Valkey) -> Afterlife:
    config = NodeConfig("http://127.0.0.1:9", "n", "one", KEY, valkey.url, "local")
    return Afterlife(config, connect(valkey.url), ServerClient(config))


def entry(**watermarks: int) -> Document:
    return {"run": "r", "fence": 3, "wanted": "stop", "order": None, "go": None, "watermarks": watermarks, "resend": []}


def test_an_attempt_is_done_when_the_server_has_all_of_it(
    folder: AttemptFolder, keeper_of_the_dead: Afterlife, valkey: Valkey
) -> None:
    keeper_of_the_dead.look_after(folder, None)
    assert not folder.is_done()
    keeper_of_the_dead.look_after(folder, entry(**{"p" * 32: 3}))
    assert folder.is_done()
    assert AttemptFolder(folder.path).is_done(), "a node worker that starts anew knows it, too"


def test_nothing_is_sent_of_a_run_that_was_deleted(
    folder: AttemptFolder, keeper_of_the_dead: Afterlife, valkey: Valkey
) -> None:
    keeper_of_the_dead.look_after(folder, {**entry(), "is_gone": True})
    assert folder.is_done()


def test_a_courier_does_not_wait_for_a_run_that_was_deleted(valkey: Valkey, tmp_path: Path) -> None:
    fill(tmp_path, 2)
    with connect(valkey.url) as client:
        contact = Contact(client, KEY, ORDER)
        courier = Courier(contact, Shipper(client, KEY, ORDER, tmp_path, contact), lambda: None)  # type: ignore[arg-type,return-value]
        courier.start()
        gone = {"at": 1.0, "attempts": {ORDER["attempt"]: {**entry(), "is_gone": True}}}
        client.set(down_key(ORDER["node"]), seal(KEY, down_key(ORDER["node"]), gone))
        began = time.monotonic()
        assert not courier.finish({"p" * 32: 3}, limit_s=60)
        assert time.monotonic() - began < 30


def test_the_end_is_told_before_the_output_is_uploaded(
    folder: AttemptFolder, keeper_of_the_dead: Afterlife, valkey: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[object] = []
    with connect(valkey.url) as client:

        def upload(*_: object) -> None:
            told.append(client.get(report_key("n", folder.attempt)))

        monkeypatch.setattr(afterlife, "upload_output", upload)
        folder.create({**ORDER, "first_rank": 0})
        keeper_of_the_dead.look_after(folder, entry())
    assert told and told[0] is not None


def test_what_has_not_arrived_keeps_an_attempt_from_being_done(
    folder: AttemptFolder, keeper_of_the_dead: Afterlife, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(afterlife, "SHIPPING_LIMIT_S", 0.2)
    keeper_of_the_dead.look_after(folder, entry(**{"p" * 32: 2}))
    assert not folder.is_done()


def test_a_folder_is_forgotten_after_a_day(
    folder: AttemptFolder, keeper_of_the_dead: Afterlife, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper_of_the_dead.look_after(folder, entry(**{"p" * 32: 3}))
    assert not keeper_of_the_dead.look_after(folder, None)
    monkeypatch.setattr(afterlife, "KEEP_S", 0.0)
    assert keeper_of_the_dead.look_after(folder, None)
    assert not folder.path.exists()


def test_what_has_not_arrived_is_kept_for_longer_than_a_day(
    folder: AttemptFolder, keeper_of_the_dead: Afterlife, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node worker that starts while the server is away hears of no attempt, and must not take that for a word."""
    monkeypatch.setattr(afterlife, "KEEP_S", 0.0)
    assert not keeper_of_the_dead.look_after(folder, None)
    assert folder.path.exists()
    monkeypatch.setattr(afterlife, "UNSENT_KEPT_S", 0.0)
    assert keeper_of_the_dead.look_after(folder, None)


def test_a_node_says_that_it_is_done(bare_node: ControlledNode) -> None:
    order = bare_node.order(SCRIPT, first_rank=1)
    bare_node.launch(order)
    report = bare_node.wait_for(order, "ended")

    def is_done() -> Any:
        bare_node.say(order, wanted="stop", watermarks=report["producers"])
        return (bare_node.up() or {"attempts": {}})["attempts"].get(order["attempt"], {}).get("is_done")

    until(is_done)


def test_a_courier_survives_what_it_does_not_expect(valkey: Valkey, tmp_path: Path) -> None:
    with connect(valkey.url) as client:
        contact = Contact(client, KEY, ORDER)
        calls: list[int] = []

        def report() -> Document:
            calls.append(1)
            if len(calls) == 1:
                raise ValueError("nobody expected this")
            return make_report(ORDER, at=time.time(), phase="running")

        courier = Courier(contact, Shipper(client, KEY, ORDER, tmp_path, contact), report)
        courier.start()
        until(lambda: len(calls) > 1)
        assert courier.finish({}, limit_s=1)


def test_a_warm_process_that_cannot_be_started_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper, tries = running_keeper(monkeypatch)
    until(lambda: len(tries) > 2)
    keeper.stop()


def test_who_waits_for_a_warm_process_hears_when_there_will_be_none(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, tries = running_keeper(monkeypatch)
    until(lambda: tries)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(keeper.start_supervisor, home, {})
        keeper.stop()
        with pytest.raises(ZygoteGone):
            asked.result(timeout=warm.START_LIMIT_S / 4)


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
    monkeypatch.setattr(warm, "FORK_LIMIT_S", 0.3)
    monkeypatch.setattr("sys.executable", str(python_without_torch))
    keeper = ZygoteKeeper(-1)
    thread = threading.Thread(target=keeper.keep, daemon=True)
    thread.start()
    try:
        until(lambda: keeper.is_ready)
        hung = keeper.pid
        assert hung is not None
        os.kill(hung, signal.SIGSTOP)
        with pytest.raises(ZygoteGone):
            keeper.start_supervisor(home, {})
        until(lambda: keeper.pid != hung)
    finally:
        keeper.stop()
        thread.join()


def test_one_order_that_makes_no_sense_does_not_hold_up_the_others(bare_node: ControlledNode) -> None:
    odd = bare_node.order(SCRIPT)
    order = bare_node.order(SCRIPT)
    bare_node.attempts[odd["attempt"]] = {"run": odd["run"], "fence": 1, "wanted": "prepare", "order": {}, "go": None}
    bare_node.say(order)
    bare_node.wait_for(order, "ready")
