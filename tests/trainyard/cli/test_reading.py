"""`trainyard runs`, `show`, `clusters` and `nodes`: in columns for people, as JSON for programs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from runs.models import Run
from runs.values.columns import LeftOutNode, Recovery
from runs.values.status import Status
from tests.cast import Cast, make_attempt, make_node, spec
from tests.spools import Spool, store
from tests.trainyard.command import Trainyard
from trainyard.contract.base import to_builtins
from trainyard.contract.causes import Cause, CauseClass, Consequence

pytestmark = pytest.mark.usefixtures("valkey")


def test_runs_are_listed_in_columns_and_as_json(trainyard: Trainyard, make_run: Callable[..., Run]) -> None:
    first, second = make_run(name="first"), make_run(name="second", status=Status.FAILED)
    lines = trainyard("runs").out.splitlines()
    assert lines[0].split()[:3] == ["id", "name", "status"]
    assert [line.split()[0] for line in lines[1:]] == [second.pk, first.pk]
    assert [run["id"] for run in json.loads(trainyard("runs", "--json").out)["items"]] == [second.pk, first.pk]
    assert second.pk not in trainyard("runs", "--status", "queued,running").out
    assert trainyard("runs", "--q", "no such run").err.startswith("No runs.")
    assert second.pk not in trainyard("runs", "--filter", "status in (queued, running)", "--sort=name").out
    refused = trainyard("runs", "--filter", "statuss = FAILED")
    assert (refused.code, refused.err) == (2, "filter: statuss is no field; the nearest is status.\n")


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


def test_show_says_what_ended_a_failed_run_and_what_followed(
    trainyard: Trainyard, cast: Cast, make_run: Callable[..., Run]
) -> None:
    run = make_run(status=Status.FAILED)
    attempt = make_attempt(run, [make_node(cast.cluster)])
    felt = "Rank 0 on a lost its connection to another rank."
    attempt.cause = to_builtins(
        Cause(
            cause_class=CauseClass.KILLED,
            sentence="Rank 1 on b was killed by SIGKILL (9).",
            consequences=[Consequence(felt, "a", 0)],
        )
    )
    attempt.save()
    lines = trainyard("show", run.pk).out.splitlines()
    assert lines[2:4] == ["cause      killed: Rank 1 on b was killed by SIGKILL (9).", f"followed   {felt}"]


def test_show_says_what_a_run_did_by_itself(trainyard: Trainyard, make_run: Callable[..., Run]) -> None:
    now = time.time()
    left_out = LeftOutNode(node="b", name="node-b", why="gpu-fault there", until=now + 60)
    avoided = LeftOutNode(node="c", name="node-c", why="2 failures there", until=now + 60, is_excluded=False)
    recovery = Recovery(number=1, total=4, failed_at=now, left_out=[left_out, avoided])
    document = spec(restarts={"max": 3, "window": "1h", "backoff": "2s", "on": {}})
    run = make_run(status=Status.RUNNING, spec=document, recovery=to_builtins(recovery))
    out = trainyard("show", run.pk).out
    assert "restarts   4 by itself, 1 of 3 count now; node-b left out until 2" in out
    assert "; node-c taken only where there is no other until 2" in out
    assert "restarts " not in trainyard("show", make_run().pk).out


def test_clusters_and_nodes_are_listed(trainyard: Trainyard, cast: Cast) -> None:
    make_node(cast.cluster, "node-a")
    assert "local" in trainyard("clusters").out
    titles, node = [line.split() for line in trainyard("nodes", "--cluster", "local").out.splitlines()]
    assert dict(zip(titles, node, strict=False))["held"] == "none" and node[0] == "node-a"
    assert [node["name"] for node in json.loads(trainyard("nodes", "--json").out)["items"]] == ["node-a"]
    assert trainyard("drain", "node-b").code == 1
