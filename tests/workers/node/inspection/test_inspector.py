"""How a node looks into datasets: in a child that cannot harm it, and until the server has the answer."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.servers import short_folder
from tests.workers.control import until
from trainyard.contract.base import JsonObject, convert, to_builtins
from trainyard.contract.desired import DesiredAttempt
from trainyard.contract.inspections import Answer, DatasetFacts, Question
from trainyard.contract.locks import lock
from trainyard.contract.machines import SandboxLevel
from trainyard.contract.orders import Order
from trainyard.contract.seals import node_scope
from trainyard.contract.statuses import Phase, WantedPhase
from trainyard.spec.sections.data import PROTOCOLS
from workers.attempt.folder import AttemptFolder
from workers.data_access import REMOTE, ROOTS, location_problem
from workers.node.attempts import Attempts, refuse_data
from workers.node.inspection.inspector import Inspector
from workers.sandbox.node import find_isolation
from workers.transport.node_config import NodeConfig, make_home

Make = Callable[..., Inspector]


class ServerStub:
    """The server, as far as an answer goes: the next calls are answered with ``statuses``, then all with 204."""

    def __init__(self) -> None:
        self.received: list[JsonObject] = []
        self.statuses: list[int] = []
        self.may_answer = threading.Event()
        self.may_answer.set()

    def answer_dataset(self, dataset: str, answer: Answer) -> None:
        self.may_answer.wait(30)
        self.received.append({"dataset": dataset, **to_builtins(answer)})
        status = self.statuses.pop(0) if self.statuses else 204
        request = httpx.Request("POST", "http://server")
        if status == 0:
            raise httpx.ConnectError("nobody listens", request=request)
        httpx.Response(status, request=request, text="facts.kind: unheard of").raise_for_status()


@pytest.fixture
def server() -> ServerStub:
    return ServerStub()


@pytest.fixture
def make(tmp_path: Path, server: ServerStub, request: pytest.FixtureRequest) -> Make:
    def make(**options: Any) -> Inspector:
        inspector = Inspector(tmp_path, server, module="tests.workers.inspection_child", **options)
        request.addfinalizer(inspector.stop)
        return inspector

    return make


def question(location: str, name: str = "d@1") -> Question:
    return Question(dataset="d", question=name, recipe="tabular", data={"source": "csv", "location": location})


def test_it_looks_in_a_child_that_gives_way_and_answers(
    make: Make, server: ServerStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "not for a child")
    monkeypatch.setenv("TRAINYARD_JOIN", "not for a child")
    inspector = make()
    inspector.take(question("/see"))
    until(lambda: server.received and not inspector.questions())
    (answer,) = server.received
    assert (answer["dataset"], answer["question"], answer["facts"]["target"]) == ("d", "d@1", "tabular")
    seen = json.loads(answer["facts"]["text"])
    assert seen["priority"] == min(os.getpriority(os.PRIO_PROCESS, 0) + 10, 19) and seen["adjusted"] == 1000
    assert "TRAINYARD_CACHE" in seen["names"] and not {"SECRET_KEY", "TRAINYARD_JOIN"} & set(seen["names"])
    assert Path(seen["home"]).parent == tmp_path / "looks" and not Path(seen["home"]).exists()


def test_it_sees_its_own_processes_alone_and_makes_sockets_wherever_the_home_is(server: ServerStub) -> None:
    with short_folder("ty-far-") as folder:
        home = folder / ("h" * (90 - len(str(folder)) - 1))
        home.mkdir()
        isolation = find_isolation(home)
        inspector = Inspector(home, server, isolation, module="tests.workers.inspection_child")
        try:
            answer = inspector.inspect(question("/see"))
        finally:
            inspector.stop()
        assert answer.facts is not None, answer.problem
        seen = json.loads(str(to_builtins(answer.facts)["text"]))
        assert isolation.level < SandboxLevel.NAMESPACES or seen["processes"] <= 3
        assert not [link for link in Path("/tmp").glob("ty-*") if os.path.realpath(link).startswith(str(home))]


def test_each_question_asks_anew_what_tells_no_version(make: Make) -> None:
    inspector = make()
    seen = [json.loads(inspector.inspect(question("/see", name)).facts["text"])["attempt"] for name in ("d@1", "d@2")]
    assert seen == ["d@1", "d@2"]


def test_a_table_is_understood(tmp_path: Path, server: ServerStub, request: pytest.FixtureRequest) -> None:
    (tmp_path / "trees.csv").write_text("height,kind\n20.5,oak\n,elm\n19.0,oak\n")
    inspector = Inspector(tmp_path, server)
    request.addfinalizer(inspector.stop)
    asked = question(str(tmp_path / "trees.csv"))
    asked.data["target"] = "kind"
    facts = inspector.inspect(asked).facts
    assert (facts["kind"], facts["num_rows"], len(facts["digest"])) == ("table", 3, 64)
    assert facts["classes"] == [{"name": "elm", "count": 1}, {"name": "oak", "count": 2}]
    titles = [column["name"] for column in facts["columns"]]
    assert dict(zip(titles, facts["rows"][0], strict=True)) == {"height": "20.5", "kind": "oak"}
    assert convert(facts, DatasetFacts)["columns"], "the server takes it as it is"


def test_a_question_is_listed_until_it_is_answered_and_asked_again_is_the_same(make: Make, server: ServerStub) -> None:
    server.may_answer.clear()
    inspector = make()
    for _ in range(3):
        inspector.take(question("/refuse"))
    assert inspector.questions() == ["d@1"]
    server.may_answer.set()
    until(lambda: not inspector.questions())
    inspector.take(question("/refuse"))
    assert inspector.questions() == []
    assert server.received == [{"dataset": "d", "question": "d@1", "problem": "Line 3 of /refuse is no JSON."}]


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("/talk", "more to say of these files"),
        ("/die", "ended by SIGKILL. Most likely the node ran out of memory."),
        ("/raise", "Looking failed: RuntimeError: the cellar is flooded"),
        ("/mumble", "Looking failed and said nothing of why."),
    ],
)
def test_a_child_that_goes_wrong_is_a_problem_in_words(make: Make, location: str, words: str) -> None:
    assert words in make().inspect(question(location)).problem


def test_a_look_that_takes_too_long_is_ended(make: Make) -> None:
    assert "took more than 0.3 s" in make(limit_s=0.3).inspect(question("/sleep")).problem
    assert not [one for one in psutil.Process().children() if "workers.node.inspection.child" in one.cmdline()]


def test_a_node_that_stops_ends_its_looks_and_says_nothing_of_them(make: Make, server: ServerStub) -> None:
    inspector = make()
    inspector.take(question("/sleep"))
    until(lambda: [one for one in psutil.Process().children() if "workers.node.inspection.child" in one.cmdline()])
    inspector.stop()
    until(lambda: not inspector.questions())
    assert server.received == []


def test_an_answer_is_sent_until_the_server_is_back(
    make: Make, server: ServerStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.node.inspection.inspector.FIRST_PAUSE_S", 0.01)
    server.statuses = [0, 503]
    inspector = make()
    inspector.take(question("/refuse"))
    until(lambda: not inspector.questions())
    assert len(server.received) == 3


def test_an_answer_that_is_not_wanted_any_more_is_dropped(make: Make, server: ServerStub) -> None:
    server.statuses = [409]
    inspector = make()
    inspector.take(question("/refuse"))
    until(lambda: not inspector.questions())
    assert len(server.received) == 1


def test_facts_that_the_server_refuses_become_a_problem(make: Make, server: ServerStub) -> None:
    server.statuses = [422]
    inspector = make()
    inspector.take(question("/see"))
    until(lambda: not inspector.questions())
    assert "nothing that can be shown: facts.kind: unheard of" in server.received[1]["problem"]


# TRAINYARD_DATA_ROOTS


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder from which alone may be read, with a file, a link out of it and a link within it."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "rows.csv").write_text("a,b\n")
    (tmp_path / "secret.csv").write_text("a,b\n")
    (folder / "out.csv").symlink_to(tmp_path / "secret.csv")
    (folder / "in.csv").symlink_to(folder / "rows.csv")
    monkeypatch.setenv(ROOTS, os.pathsep.join((str(tmp_path / "nothing"), str(folder))))
    return folder


def test_without_roots_a_node_reads_what_its_user_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ROOTS, raising=False)
    assert location_problem("/etc/passwd") == location_problem("file:///etc/passwd") == ""


def test_below_the_roots_a_node_reads(roots: Path) -> None:
    for name in ("rows.csv", "in.csv", "", "not-there.csv"):
        assert location_problem(str(roots / name)) == ""
    for url in ("s3://bucket/rows.csv", "sftp://host/rows.csv", "zip://part::https://host/all.zip"):
        assert location_problem(url) == ""
    assert location_problem(f"zip://part::{roots}/all.zip") == ""


def test_what_leads_to_another_machine_is_what_can_be_fetched() -> None:
    assert REMOTE | {"memory", "zip", "tar"} == set(PROTOCOLS)


def test_an_archive_outside_of_the_roots_is_refused_also_where_a_part_of_it_is_named(roots: Path) -> None:
    assert "lies outside of the folders" in location_problem("zip://x::/etc/a.zip")


@pytest.mark.parametrize("where", ["out.csv", "../secret.csv", "../data-2/rows.csv"])
def test_what_leads_out_of_the_roots_is_refused(roots: Path, where: str) -> None:
    assert "lies outside of the folders" in location_problem(f"{roots}/{where}")


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "zip://x::file:///etc/a.zip", "zip://x", "git://etc", "s3::file:///x"]
)
def test_a_url_that_leads_back_to_local_files_is_refused(roots: Path, url: str) -> None:
    assert "by their path" in location_problem(url)


def order_with(task: JsonObject) -> Order:
    return Order(attempt="a", run="r", fence=1, node="n", num_ranks=1, spec={"task": task})


def test_what_has_no_location_or_one_below_the_roots_may_run(roots: Path) -> None:
    refuse_data(order_with({"script": "train.py"}))
    refuse_data(order_with({"recipe": "tabular", "data": {"location": str(roots)}}))


def test_a_run_with_other_data_is_refused_before_it_starts(roots: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    make_home(home)
    config = NodeConfig("http://127.0.0.1:9", "n", "one", "00" * 32, "unix:///none", "local")
    nobody: Any = None  # neither a warm process nor a server is asked
    attempts = Attempts(config, home, address="127.0.0.1", zygote=nobody, source=nobody, finished=nobody)
    task = {"recipe": "tabular", "data": {"location": "/etc/passwd"}}
    order = lock(config.key, node_scope("order", config.id), order_with(task))
    attempts.begin({"a": DesiredAttempt(run="r", fence=1, wanted=WantedPhase.PREPARE, order=order)})
    until(lambda: "a" in attempts.listed() and attempts.listed()["a"].phase == Phase.REFUSED)
    report = AttemptFolder(home / "attempts" / "a").report()
    assert report is not None and report.reason is not None
    assert "task.data.location: /etc/passwd lies outside" in report.reason.sentence


def test_a_dataset_outside_of_the_roots_is_not_looked_at(roots: Path, make: Make) -> None:
    assert "lies outside" in make().inspect(question("/see")).problem
