from __future__ import annotations

import hashlib
from pathlib import Path

import httpx
import pytest

from trainyard.contract.desired import StandbyRun
from trainyard.contract.orders import CodeReference
from workers.node.preparation.standby import WARMING, Standby

CODE = b"packed"
SHA256 = hashlib.sha256(CODE).hexdigest()


class Source:
    def __init__(self) -> None:
        self.asked: list[str] = []
        self.is_away = False

    def bundle(self, sha256: str) -> bytes:
        self.asked.append(sha256)
        if self.is_away:
            raise httpx.ConnectError("away")
        return CODE


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def standby(tmp_path: Path, source: Source) -> Standby:
    (tmp_path / "bundles").mkdir()
    return Standby(tmp_path, source, lambda: True)


def test_code_is_fetched_once_before_it_is_needed(standby: Standby, source: Source, tmp_path: Path) -> None:
    standby.take([StandbyRun("one", CodeReference(SHA256)), StandbyRun("two")])
    assert standby.status() == {}
    for _ in range(3):
        standby.prepare()
    assert standby.status() == {"one": "", "two": ""}
    assert source.asked == [SHA256]
    assert (tmp_path / "bundles" / SHA256).read_bytes() == CODE


def test_what_failed_is_tried_again(standby: Standby, source: Source) -> None:
    source.is_away = True
    standby.take([StandbyRun("one", CodeReference(SHA256))])
    standby.prepare()
    assert standby.status() == {"one": "its code cannot be fetched: away"}
    source.is_away = False
    standby.prepare()
    assert standby.status() == {"one": ""}


def test_an_interpreter_that_is_not_there_is_named(standby: Standby) -> None:
    standby.take([StandbyRun("one", python="python-of-nobody"), StandbyRun("two", python="/no/python")])
    standby.prepare()
    assert standby.status()["one"] == "there is no program python-of-nobody here, which task.python names"
    assert "/no/python" in standby.status()["two"]


def test_a_run_that_is_wanted_no_more_is_forgotten(standby: Standby) -> None:
    standby.take([StandbyRun("one")])
    standby.prepare()
    standby.take([])
    standby.prepare()
    assert standby.status() == {}


def test_a_node_whose_warm_process_starts_is_not_ready(tmp_path: Path, source: Source) -> None:
    standby = Standby(tmp_path, source, lambda: False)
    standby.take([StandbyRun("one")])
    standby.prepare()
    assert standby.status() == {"one": WARMING}
