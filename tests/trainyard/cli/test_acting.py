"""Commands that change something in one request: on runs, nodes and tokens."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.utils import timezone

from runs import actions
from runs.models import Run
from runs.records.metrics.models import Telemetry
from runs.values.status import Phase, Status
from tests.cast import Cast, make_attempt, make_node, make_run, spec
from tests.trainyard.command import Trainyard

pytestmark = pytest.mark.usefixtures("valkey")


def test_acting_on_a_run(trainyard: Trainyard, make_run: Callable[..., Run]) -> None:
    run = make_run()
    assert "CANCELLED" in trainyard("stop", run.pk).err
    assert trainyard("restart", run.pk).out.strip() == run.pk
    assert trainyard("pause", run.pk).err == "hello-gpt is PAUSED. Paused by mate. It keeps its place in line.\n"
    assert "QUEUED" in trainyard("resume", run.pk).err
    assert "CANCELLED" in trainyard("stop", run.pk).err
    assert trainyard("move", run.pk, "default").err == "hello-gpt is in project default.\n"
    assert trainyard("archive", run.pk).code == 0
    clone = trainyard("clone", run.pk, "--set", "train.steps=9").out.strip()
    assert Run.objects.get(pk=clone).spec["train"]["steps"] == 9
    assert trainyard("delete", run.pk).code == 0
    assert not Run.objects.filter(pk=run.pk).exists()


@pytest.mark.parametrize("verb", ["resume", "restart", "archive"])
def test_what_the_state_does_not_allow_is_exit_code_1_with_a_sentence(
    verb: str, trainyard: Trainyard, make_run: Callable[..., Run]
) -> None:
    ended = trainyard(verb, make_run(status=Status.RUNNING).pk)
    assert ended.code == 1 and ended.out == "" and ended.err.endswith(".\n")


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


def test_resizing_an_elastic_run(trainyard: Trainyard, make_run: Callable[..., Run]) -> None:
    document = spec(resources={"nodes": {"min": 1, "max": 4}, "processes_per_node": 1, "accelerator": "auto"})
    run = make_run(spec=document, node_counts=[1, 2, 4], num_nodes=1, slots_per_node=1)
    assert trainyard("resize", run.pk, "2").code == 0
    assert Run.objects.get(pk=run.pk).node_limit == 2
    assert trainyard("resize", run.pk, "auto").code == 0
    assert Run.objects.get(pk=run.pk).node_limit is None
    ended = trainyard("resize", run.pk, "3")
    assert ended.code != 0 and "do not divide among the 3 ranks" in ended.err
