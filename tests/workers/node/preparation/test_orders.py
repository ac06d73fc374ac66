from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.servers import short_folder
from trainyard.contract.desired import StandbyRun
from trainyard.contract.orders import CodeReference, Order
from workers.environments.store import EnvironmentRecord, EnvironmentStore
from workers.node.preparation.orders import WARMING, CannotRunHere, Environments, Standby, check_interpreter
from workers.sandbox.node import NO_ISOLATION, Isolation
from workers.sandbox.process import Mechanism

CODE = b"packed"
SHA256 = hashlib.sha256(CODE).hexdigest()


def order(**task: Any) -> Order:
    return Order(attempt="a", run="r", fence=1, node_name="lab-1", spec={"task": {"script": "train.py", **task}})


@pytest.mark.parametrize("task", [{}, {"python": ""}, {"python": None}, {"python": sys.executable}, {"python": "sh"}])
def test_an_interpreter_that_is_there_is_accepted(task: dict[str, Any]) -> None:
    check_interpreter(order(**task))


def test_a_name_is_looked_for_where_the_ranks_will_look(tmp_path: Path) -> None:
    (tmp_path / "mine").symlink_to(sys.executable)
    check_interpreter(order(python="mine", environment={"PATH": str(tmp_path)}))
    with pytest.raises(CannotRunHere, match="no program mine on the PATH of lab-1"):
        check_interpreter(order(python="mine"))


@pytest.mark.parametrize(
    ("python", "code", "sentence"),
    [
        ("/nowhere/bin/python", "python_missing", "There is no file /nowhere/bin/python on lab-1, which task.python"),
        ("python-of-nobody", "python_missing", "There is no program python-of-nobody on the PATH of lab-1 ("),
        ("/etc/passwd", "python_not_executable", "/etc/passwd on lab-1, which task.python names, may not be run"),
        ("/usr/bin", "python_not_executable", "/usr/bin on lab-1, which task.python names, is a folder"),
    ],
)
def test_an_interpreter_that_cannot_be_run_is_refused_in_words(python: str, code: str, sentence: str) -> None:
    with pytest.raises(CannotRunHere) as refused:
        check_interpreter(order(python=python))
    assert refused.value.code == code
    assert sentence in str(refused.value)


@pytest.fixture
def closed() -> Iterator[Path]:
    """A folder of root's in an open one, with links to it and from it."""
    with short_folder("ty-closed-") as folder:
        folder.chmod(0o755)
        closed = folder / "closed"
        (closed / "bin").mkdir(parents=True)
        (closed / "bin" / "tool").symlink_to(sys.executable)
        (closed / "words").write_text("secret")
        (closed / "out").symlink_to("/etc/hostname")
        for name in ("bin", "words", "out", "nothing", "bin/tool", "bin/nothing", "words/below"):
            (folder / name.replace("/", "-")).symlink_to(closed / name)
        closed.chmod(0o700)
        yield closed


def refusal_of(isolation: Isolation, **task: Any) -> str:
    with pytest.raises(CannotRunHere) as refused:
        check_interpreter(order(**task), isolation)
    return f"{refused.value.code} {refused.value}"


@pytest.mark.skipif(os.getuid() != 0, reason="only root has files that are closed to it as another user")
def test_what_is_in_a_closed_folder_is_not_told_by_the_refusal(closed: Path) -> None:
    """The node worker is root, and sees more than the ranks, whose project's user asks here what there is."""
    as_user = Isolation(mechanism=Mechanism.USER)
    folder = closed.parent
    standby = Standby(folder, None, lambda: True, as_user)  # type: ignore[arg-type]
    names = ("bin", "words", "out", "nothing", "bin/tool", "bin/nothing", "words/below", "../closed/words")
    paths = [*(closed / name for name in names), *(folder / name.replace("/", "-") for name in names[:-1])]
    said = {refusal_of(as_user, python=str(path)).replace(str(path), "PATH") for path in paths}
    assert len(said) == 1 and f"{closed} is closed to others" in said.pop()
    said = {
        refusal_of(as_user, python=name, environment={"PATH": place}).replace(name, "NAME").replace(place, "PLACE")
        for name in ("tool", "of-nobody")
        for place in (str(closed / "bin"), str(folder / "bin"))
    }
    assert len(said) == 1
    for path in paths:
        standby.take([StandbyRun("one", python=str(path))])
        standby.prepare()
        assert standby.status() == {"one": f"there is no program {path} here, which task.python names"}
    closed.chmod(0o755)
    check_interpreter(order(python=str(folder / "bin-tool")), as_user)
    assert "There is no file" in refusal_of(as_user, python=str(folder / "nothing"))


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


def test_the_node_says_what_it_keeps_and_a_script_cannot_name_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINYARD_CONTAINERS", "off")
    environments = Environments(tmp_path, NO_ISOLATION)
    assert environments.kept is None, "nobody has looked"
    store = EnvironmentStore(tmp_path)
    for digest, key, image in (("1", "a" * 16, "sha"), ("2", "b" * 16, ""), ("3", "", "sha")):
        place = store.place("vision", digest)
        place.lock.touch()
        place.write_record(EnvironmentRecord(kind="container", key=key, image=image, bytes=700))
    cache = tmp_path / "cache" / "projects" / "vision"
    for name in (f"fetched-{'c' * 16}-rows-csv-1", "fetched-<b>-x", f"fetched-{'d' * 15}", "samples-1", ".fetched-tmp"):
        (cache / name).mkdir(parents=True)
    environments.make_room()
    assert environments.kept == {f"vision/{'a' * 16}": 700, f"vision/{'b' * 16}": 0, f"vision/{'c' * 16}": 0}
