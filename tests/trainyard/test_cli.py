"""The command line against a real server: what it prints where, and its exit codes."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.utils import timezone

from runs import actions
from runs.ingest.commit import Source, commit
from runs.ingest.records import incoming
from runs.metrics.models import Telemetry
from runs.models import Dataset, Run
from runs.status import Phase, Status
from tests.cast import Cast, make_attempt, make_node, make_run, spec
from tests.checkpoints import saved, tell
from tests.datasets import TABLE
from tests.spools import Spool
from tests.up_process import Up
from trainyard.cli import main

RECIPE = "name: hello\ntask: {recipe: language-model}\n"
pytestmark = pytest.mark.usefixtures("valkey")


class Ended(NamedTuple):
    code: int
    out: str
    err: str


Trainyard = Callable[..., Ended]


@pytest.fixture
def trainyard(
    transactional_db: None,
    cast: Cast,
    live_server: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Trainyard:
    """``trainyard("runs", "--json")``: the command as the team mate, against a server on this machine."""
    _, secret = actions.create_token(actor=cast.mate, name="test")
    monkeypatch.setenv("TRAINYARD_URL", live_server.url)
    monkeypatch.setenv("TRAINYARD_TOKEN", secret)

    def run(*words: str) -> Ended:
        try:
            code = main(words)
        except SystemExit as error:  # argparse leaves this way
            code = int(error.code or 0)
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return run


def store(run: Run, frame: bytes) -> None:
    commit(run.pk, fence=1, source=Source("node1", "node-a"), batch=incoming(frame))


def test_checkpoints_are_listed_and_gone_on_from(trainyard: Trainyard, cast: Cast) -> None:
    run = actions.submit_run(actor=cast.mate, document=spec())
    assert "No checkpoints" in trainyard("checkpoints", run.pk).err
    assert trainyard("continue", run.pk).err == f"Run {run.name} has no checkpoint to go on from.\n"
    Run.objects.filter(pk=run.pk).update(fence=1)
    tell(run, saved(100), saved(200))
    ended = trainyard("checkpoints", run.pk)
    titles, newest, oldest = [line.split() for line in ended.out.splitlines()]
    assert titles[:4] == ["step", "state", "size", "attempt"]
    assert newest[:4] == ["200", "valid", "4", "KiB"] and oldest[0] == "100"
    assert [one["step"] for one in json.loads(trainyard("checkpoints", run.pk, "--json").out)["items"]] == [200, 100]
    made = trainyard("continue", run.pk, "--step", "100", "--set", "train.steps=150").out.strip()
    after = Run.objects.get(pk=made)
    assert (after.parent, after.spec["checkpoint"]["restore"], after.spec["train"]["steps"]) == (
        run,
        f"{run.pk}@100",
        150,
    )
    ended = trainyard("continue", run.pk, "--step", "150")
    assert ended.code == 2 and "it has 200, 100" in ended.err


def test_submit_prints_the_id_alone(trainyard: Trainyard, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(RECIPE)
    ended = trainyard("submit", str(tmp_path / "run.yaml"), "--set", "train.steps=7", "--set", "tags=[a, b]")
    assert ended.code == 0 and ended.err == ""
    made = Run.objects.get(pk=ended.out.strip())
    assert made.spec["train"]["steps"] == 7 and made.tags == ["a", "b"]


def test_plan_says_what_a_spec_would_cost_and_launches_nothing(
    trainyard: Trainyard, cast: Cast, tmp_path: Path
) -> None:
    for _ in range(2):
        make_node(cast.cluster, inventory={"cpu": {"count": 4}, "memory_bytes": 2**33, "hostname": "box"})
    (tmp_path / "run.yaml").write_text(RECIPE)
    words = ("plan", str(tmp_path / "run.yaml"), "--set", "resources.nodes=2")
    ended = trainyard(*words)
    assert ended.code == 0 and not Run.objects.exists()
    assert "speeds     assumed: nobody has measured this cluster" in ended.out
    assert "ranks     base" in ended.out and "2 from 0" in ended.out and "--set parallel." in ended.out
    answer = json.loads(trainyard(*words, "--json", "--count", "1").out)
    assert len(answer["estimate"]["memory"]) == 2 and len(answer["proposals"]) == 1


def test_a_plan_of_a_script_is_exit_code_2(trainyard: Trainyard, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("name: mine\ntask: {script: train.py}\n")
    ended = trainyard("plan", str(tmp_path / "run.yaml"))
    assert ended.code == 2 and "task: is nothing that the planner knows" in ended.err


def test_submit_packs_and_sends_the_code_of_a_script(trainyard: Trainyard, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print()")
    (tmp_path / "weights.bin").write_bytes(os.urandom(4_000_000))  # more than Django takes for a form
    (tmp_path / "run.yaml").write_text("name: mine\ntask: {script: train.py, code: .}\n")
    ended = trainyard("submit", str(tmp_path / "run.yaml"))
    assert ended.code == 0 and "Sending 3 files, 4.0 MB" in ended.err
    assert Run.objects.get(pk=ended.out.strip()).spec["task"]["code"].keys() == {"sha256"}


@pytest.mark.parametrize(
    ("document", "words", "complaint"),
    [
        (RECIPE, ["--set", "train.steps=none"], 'train.steps: must be a whole number, not "none"'),
        (RECIPE, ["--set", "train.steps"], "--set takes PATH=VALUE"),
        (RECIPE, ["--set", "cluster=elsewhere"], "cluster: there is no cluster"),
        ("name: [", [], "run.yaml cannot be read"),
        ("5", [], "a spec is a map with a name and a task, not 5"),
        ("name: x\ntask: {script: other.py}\n", [], "task.script: 'other.py' is not in the folder"),
        ("name: x\ntask: {script: a.py, code: nowhere}\n", [], "task.code: "),
    ],
)
def test_a_bad_spec_is_exit_code_2_and_one_line_for_each_problem(
    document: str, words: list[str], complaint: str, trainyard: Trainyard, tmp_path: Path
) -> None:
    (tmp_path / "run.yaml").write_text(document)
    ended = trainyard("submit", str(tmp_path / "run.yaml"), *words)
    assert (ended.code, ended.out) == (2, "")
    assert complaint in ended.err and len(ended.err.splitlines()) == 1
    assert not Run.objects.exists()


def test_the_complaint_is_that_of_the_api(trainyard: Trainyard, cast: Cast, tmp_path: Path) -> None:
    make_node(cast.cluster)
    (tmp_path / "run.yaml").write_text(RECIPE)
    ended = trainyard("submit", str(tmp_path / "run.yaml"), "--set", "resources.nodes=2")
    assert ended.code == 2
    assert ended.err.startswith("resources.nodes: 2 is more than this cluster has: 1 nodes")


def test_a_missing_file_is_exit_code_2(trainyard: Trainyard) -> None:
    ended = trainyard("submit", "/nowhere/run.yaml")
    assert (ended.code, ended.err) == (2, "/nowhere/run.yaml cannot be read: No such file or directory\n")


@pytest.mark.parametrize(
    "words", [["bogus"], ["show"], ["runs", "--limit", "0"], ["submit", "x", "--wait", "--follow"]]
)
def test_a_bad_command_line_is_exit_code_2(words: list[str], trainyard: Trainyard) -> None:
    assert trainyard(*words).code == 2


def test_runs_are_listed_in_columns_and_as_json(trainyard: Trainyard, make_run: Callable[..., Run]) -> None:
    first, second = make_run(name="first"), make_run(name="second", status=Status.FAILED)
    lines = trainyard("runs").out.splitlines()
    assert lines[0].split()[:3] == ["id", "name", "status"]
    assert [line.split()[0] for line in lines[1:]] == [second.pk, first.pk]
    assert [run["id"] for run in json.loads(trainyard("runs", "--json").out)["items"]] == [second.pk, first.pk]
    assert second.pk not in trainyard("runs", "--status", "queued,running").out
    assert trainyard("runs", "--q", "no such run").err.startswith("No runs.")


def test_a_list_goes_on_over_pages(trainyard: Trainyard, make_run: Callable[..., Run]) -> None:
    for _ in range(5):
        make_run()
    client_pages = trainyard("runs", "--limit", "3", "--json").out
    assert len(json.loads(client_pages)["items"]) == 3


def test_show_says_status_reason_lamps_and_metrics(trainyard: Trainyard, make_run: Callable[..., Run]) -> None:
    run = make_run(status=Status.FAILED, reason_sentence="Rank 1 ended with exit code 3.")
    store(run, Spool().points([(1, 1.0, 0.5)], name="train/loss"))
    out = trainyard("show", run.pk).out
    assert "FAILED: Rank 1 ended with exit code 3." in out
    assert all(word in out for word in ("process", "progress", "telemetry", "train/loss"))
    assert json.loads(trainyard("show", run.pk, "--json").out)["id"] == run.pk


def test_what_others_wrote_cannot_reach_the_terminal(trainyard: Trainyard, make_run: Callable[..., Run]) -> None:
    run = make_run(reason_sentence="\x1b[2J\x9bowned\r")
    store(run, Spool().logs([(1.0, "\x1b]0;title\x07 text")]))
    for ended in (trainyard("show", run.pk), trainyard("runs"), trainyard("logs", run.pk)):
        assert not set(ended.out) & set("\x1b\x9b\x07\r")


def test_logs_print_lines_with_their_rank(trainyard: Trainyard, make_run: Callable[..., Run]) -> None:
    run = make_run(status=Status.SUCCEEDED)
    store(run, Spool().logs([(1.0, "one"), (3.0, "three")], rank=0))
    store(run, Spool().logs([(2.0, "two")], rank=1))
    assert trainyard("logs", run.pk).out.splitlines() == ["[0] one", "[1] two", "[0] three"]
    assert trainyard("logs", run.pk, "--rank", "1").out.splitlines() == ["two"]
    assert trainyard("logs", run.pk, "--follow").out.splitlines() == ["[0] one", "[1] two", "[0] three"]
    assert json.loads(trainyard("logs", run.pk, "--rank", "1", "--json").out)["text"] == "two"


def test_logs_print_what_fits_a_pattern_or_has_a_level(trainyard: Trainyard, make_run: Callable[..., Run]) -> None:
    run = make_run(status=Status.SUCCEEDED)
    long = "ERROR: " + "x" * 5000
    store(run, Spool().logs([(1.0, "one"), (3.0, "WARNING: three"), (4.0, long)], rank=0))
    store(run, Spool().logs([(2.0, "ERROR: two")], rank=1))
    assert trainyard("logs", run.pk, "--grep", "^(ONE|error: t)").out.splitlines() == ["[0] one", "[1] ERROR: two"]
    assert trainyard("logs", run.pk, "--level", "error", "--rank", "1").out.splitlines() == ["ERROR: two"]
    assert trainyard("logs", run.pk, "--level", "error").out.splitlines() == ["[1] ERROR: two", f"[0] {long}"]
    both = ("--level", "warning", "--level", "none")
    assert trainyard("logs", run.pk, *both).out.splitlines() == ["[0] one", "[0] WARNING: three"]
    assert trainyard("logs", run.pk, *both, "--follow").out.splitlines() == ["[0] one", "[0] WARNING: three"]
    assert "spans" not in json.loads(trainyard("logs", run.pk, "--grep", "two", "--json").out)
    refused = trainyard("logs", run.pk, "--grep", "(")
    assert refused.code != 0 and "missing )" in refused.err


def test_metrics_come_whole_however_many_there_are(trainyard: Trainyard, make_run: Callable[..., Run]) -> None:
    run = make_run(status=Status.SUCCEEDED)
    points = [(step // 11_000, 1000.0 + step, step / 3) for step in range(22_000)]
    store(run, Spool().points(points, name="train/loss"))
    store(run, Spool().points([(0, 1.0, float("nan"))], name="=cmd()\r,", rank="1"))
    listed = trainyard("metrics", run.pk).out.splitlines()
    assert [line.split()[0] for line in listed] == ["name", "=cmd(),", "train/loss"]
    rows = list(csv.DictReader(io.StringIO(trainyard("metrics", run.pk, "train/loss", "--csv").out)))
    assert [(int(row["step"]), float(row["time"]), float(row["value"])) for row in rows] == points
    everything = list(csv.DictReader(io.StringIO(trainyard("metrics", run.pk, "--csv").out, newline="")))
    assert len(everything) == 22_001
    first = everything[0]
    assert (first["name"], first["labels"], first["value"]) == ("'=cmd()\r,", '{"rank": "1"}', "NaN")
    [series] = json.loads(trainyard("metrics", run.pk, "train/loss", "--json").out)["series"]
    assert list(zip(series["step"], series["time"], series["value"], strict=True)) == points
    assert trainyard("metrics", run.pk, "=cmd()\r,").out.splitlines()[1].split() == ["0", "NaN", "rank=1"]


def test_metrics_of_what_is_not_there_are_refused(trainyard: Trainyard, make_run: Callable[..., Run]) -> None:
    assert trainyard("metrics", make_run().pk, "val/loss").code == 1
    assert trainyard("metrics", "nothing", "--csv").code == 1


def test_acting_on_a_run(trainyard: Trainyard, make_run: Callable[..., Run]) -> None:
    run = make_run()
    assert "CANCELLED" in trainyard("stop", run.pk).err
    assert trainyard("restart", run.pk).out.strip() == run.pk
    assert "CANCELLED" in trainyard("stop", run.pk).err
    assert trainyard("archive", run.pk).code == 0
    clone = trainyard("clone", run.pk, "--set", "train.steps=9").out.strip()
    assert Run.objects.get(pk=clone).spec["train"]["steps"] == 9
    assert trainyard("delete", run.pk).code == 0
    assert not Run.objects.filter(pk=run.pk).exists()


@pytest.mark.parametrize("verb", ["pause", "resume", "restart", "archive"])
def test_what_the_state_does_not_allow_is_exit_code_1_with_a_sentence(
    verb: str, trainyard: Trainyard, make_run: Callable[..., Run]
) -> None:
    ended = trainyard(verb, make_run(status=Status.RUNNING).pk)
    assert ended.code == 1 and ended.out == "" and ended.err.endswith(".\n")


@pytest.mark.parametrize(
    ("status", "code"), [(Status.SUCCEEDED, 0), (Status.FAILED, 1), (Status.CANCELLED, 1), (Status.RUNNING, 1)]
)
def test_wait_succeeds_only_with_the_run(
    status: Status, code: int, trainyard: Trainyard, make_run: Callable[..., Run]
) -> None:
    ended = trainyard("wait", make_run(status=status).pk, "--timeout", "0")
    assert ended.code == code and ended.out == "" and status in ended.err


def test_clusters_and_nodes_are_listed(trainyard: Trainyard, cast: Cast) -> None:
    make_node(cast.cluster, "node-a")
    assert "local" in trainyard("clusters").out
    assert "node-a" in trainyard("nodes", "--cluster", "local").out
    assert [node["name"] for node in json.loads(trainyard("nodes", "--json").out)["items"]] == ["node-a"]
    assert trainyard("drain", "node-b").code == 1


def test_a_node_is_drained_and_enabled_by_name(
    trainyard: Trainyard, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, secret = actions.create_token(actor=cast.owner, name="test")
    node = make_node(cast.cluster, "node-a")
    assert trainyard("drain", "node-a").code == 1  # the mate may not
    monkeypatch.setenv("TRAINYARD_TOKEN", secret)
    for command, is_draining in (("drain", True), ("enable", False)):
        assert trainyard(command, "node-a").code == 0
        node.refresh_from_db()
        assert node.is_draining is is_draining


def test_a_new_token_works(trainyard: Trainyard, monkeypatch: pytest.MonkeyPatch) -> None:
    made = trainyard("token", "create", "--name", "ci")
    assert made.code == 0
    monkeypatch.setenv("TRAINYARD_TOKEN", made.out.strip())
    assert trainyard("runs").code == 0


def test_a_run_that_is_not_there_is_exit_code_1(trainyard: Trainyard) -> None:
    for words in (["show", "nope"], ["stop", "a/b"], ["logs", "..%2f"], ["wait", "é"]):
        ended = trainyard(*words)
        assert ended.code == 1 and len(ended.err.splitlines()) == 1, words


def test_a_wrong_token_is_exit_code_3(trainyard: Trainyard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_TOKEN", "ty_wrong")
    ended = trainyard("runs")
    assert ended.code == 3 and len(ended.err.splitlines()) == 1


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"TRAINYARD_URL": "http://127.0.0.1:9"},
        {"TRAINYARD_URL": "http://127.0.0.1:9", "TRAINYARD_TOKEN": "x"},
        {"TRAINYARD_URL": "nonsense", "TRAINYARD_TOKEN": "x"},
    ],
    ids=str,
)
def test_no_server_is_exit_code_3_and_one_sentence(environment: dict[str, str], tmp_path: Path) -> None:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TRAINYARD_")}
    ended = subprocess.run(
        [sys.executable, "-m", "trainyard", "runs"],
        env={**inherited, "TRAINYARD_HOME": str(tmp_path), **environment},
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stdout) == (3, "")
    assert len(ended.stderr.splitlines()) == 1, ended.stderr


def test_a_run_is_followed_to_its_end(running_trainyard: Up, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('hello from a rank')")
    (tmp_path / "run.yaml").write_text("name: mine\ntask: {script: train.py, code: .}\n")
    (tmp_path / "bad.py").write_text("raise SystemExit(3)")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TRAINYARD_")}

    def submit(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "trainyard", "submit", "run.yaml", *words],
            env={**inherited, "TRAINYARD_HOME": str(running_trainyard.home), "PYTHONPATH": str(Path.cwd())},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )

    good = submit("--follow")
    assert good.returncode == 0, good.stderr
    assert "[0] hello from a rank" in good.stderr and "SUCCEEDED" in good.stderr
    assert len(good.stdout.split()) == 1
    bad = submit("--wait", "--set", "task.script=bad.py")
    assert bad.returncode == 1 and "FAILED" in bad.stderr


def test_datasets_are_added_listed_shown_checked_and_deleted(trainyard: Trainyard, cast: Cast) -> None:
    assert "trainyard dataset add" in trainyard("datasets").err
    made = trainyard("dataset", "add", "trees", "--source", "csv", "--location", "/data/trees.csv", "--target", "kind")
    assert made.code == 0, made.err
    Dataset.objects.update(state="ready", facts=TABLE, size_bytes=2_048, digest="ab" * 32)
    titles, row = (line.split() for line in trainyard("datasets").out.splitlines())
    assert titles[:4] == ["name", "source", "state", "rows"] and row[:4] == ["trees", "csv", "ready", "4"]
    shown = trainyard("dataset", "show", "trees").out
    assert "for        tabular in project default" in shown and "target     kind" in shown
    assert "oak" in shown and "height" in shown
    document = json.loads(trainyard("dataset", "show", made.out.strip(), "--json").out)
    assert document["facts"]["num_rows"] == 4
    gone = trainyard("dataset", "delete", "trees")
    assert gone.code == 0 and not Dataset.objects.exists()


def test_a_dataset_that_is_wrong_or_not_there_is_one_sentence(trainyard: Trainyard, cast: Cast) -> None:
    wrong = trainyard("dataset", "add", "trees", "--source", "csv", "--location", "trees.csv")
    assert wrong.code == 2 and wrong.err.startswith("location: must be an absolute path")
    assert trainyard("dataset", "show", "trees").err == "There is no dataset 'trees' that you can see.\n"


def test_whoever_waits_for_a_dataset_learns_what_is_wrong_with_it(
    trainyard: Trainyard, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(_: float) -> None:
        Dataset.objects.update(state="failed", problem="There is no file /data/trees.csv.", checked_at=timezone.now())

    monkeypatch.setattr("trainyard.cli.datasets.time.sleep", look)
    ended = trainyard("dataset", "add", "trees", "--source", "csv", "--location", "/data/trees.csv", "--wait")
    assert ended.code == 1 and "failed: There is no file /data/trees.csv." in ended.err
    assert trainyard("dataset", "check", "trees").code == 1


def test_a_trace_names_its_files_and_a_script_is_refused(trainyard: Trainyard, cast: Cast) -> None:
    run = make_run(cast, status=Status.RUNNING, spec=spec(train={"steps": 2000}))
    make_attempt(run, [make_node(cast.cluster), make_node(cast.cluster)], phase=Phase.RUNNING)
    now = timezone.now().timestamp()
    Telemetry.objects.create(run_id=run.pk, step=100, step_at=now, median_step_s=0.1)
    ended = trainyard("trace", run.pk, "--steps", "1", "--rank", "1")
    first = run.attempts.get().trace["first"]  # type: ignore[index]
    assert (ended.code, ended.out) == (0, f"traces/step-{first}.rank-1.json.gz\n")
    assert ended.err == f"Step {first} is traced on rank 1.\n"
    assert trainyard("trace", run.pk).code == 1
    own = make_run(cast, status=Status.RUNNING, spec={"name": "own", "task": {"script": "train.py"}})
    assert "is a script, whose steps Trainyard does not see" in trainyard("trace", own.pk).err
