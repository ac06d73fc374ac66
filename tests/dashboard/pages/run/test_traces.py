"""The dialog that asks for a trace, and where the traces are shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from runs.models import Run, User
from runs.records.files import paths as places
from runs.records.metrics.models import Telemetry
from runs.values.status import Phase, Status
from tests.cast import Cast, make_attempt, make_node, spec

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
MakeRun = Callable[..., Run]
SCRIPT = {"name": "own", "resources": {"nodes": 2, "processes_per_node": 1}, "task": {"script": "train.py"}}


def training(cast: Cast, make_run: MakeRun, **changes: Any) -> Run:
    run = make_run(name="hello", status=Status.RUNNING, **{"spec": spec(train={"steps": 2000}), **changes})
    make_attempt(run, [make_node(cast.cluster), make_node(cast.cluster)], phase=Phase.RUNNING)
    now = timezone.now().timestamp()
    Telemetry.objects.create(run_id=run.pk, step=100, step_at=now, median_step_s=0.1)
    return run


def text_of(client: Client, url: str) -> str:
    answer = client.get(url)
    assert answer.status_code == 200
    return answer.content.decode()


def test_the_menu_leads_to_a_dialog_that_says_which_ranks_there_are(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    run = training(cast, make_run)
    mate = as_user(cast.mate)
    assert f'action="/runs/{run.pk}/trace/" data-module="dialog"' in text_of(mate, f"/runs/{run.pk}/")
    dialog = mate.post(f"/runs/{run.pk}/trace/?fragment=dialog").content.decode()
    assert "numbers from 0 to 1" in dialog and "<html" not in dialog
    assert "Trace steps of hello" in text_of(mate, f"/runs/{run.pk}/trace/")  # where there are no scripts


def test_the_answer_says_which_steps(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run = training(cast, make_run)
    form = {"steps": "2", "ranks": " 1 , 0 "}
    answer = as_user(cast.mate).post(f"/runs/{run.pk}/trace/", form, headers={"X-Requested-With": "fetch"})
    trace = run.attempts.get().trace
    assert trace is not None and (trace["steps"], trace["ranks"]) == (2, [0, 1])
    first = trace["first"]
    assert answer.json()["sentence"] == (
        f"Steps {first} to {first + 1} will be traced on 2 ranks. The traces come to the Files tab."
    )


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"steps": "many"}, "'many' is no whole number; accepted: 1 to 20"),
        ({"steps": "99"}, "99 is not accepted; accepted: 1 to 20"),
        ({"steps": "3", "ranks": "0, last"}, "'last' is no whole number; accepted: all, or numbers such as 0, 2"),
        ({"steps": "3", "ranks": "7"}, "7 is no rank of this run"),
    ],
)
def test_what_cannot_be_is_answered_in_a_sentence(
    cast: Cast, as_user: AsUser, make_run: MakeRun, form: dict[str, str], words: str
) -> None:
    run = training(cast, make_run)
    answer = as_user(cast.mate).post(f"/runs/{run.pk}/trace/", form, headers={"X-Requested-With": "fetch"})
    assert answer.status_code == 422
    assert words in answer.json()["sentence"]


def test_a_viewer_and_a_script_have_no_such_button(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run = training(cast, make_run)
    assert "/trace/" not in text_of(as_user(cast.viewer), f"/runs/{run.pk}/")
    own = training(cast, make_run, spec=SCRIPT)
    assert "/trace/" not in text_of(as_user(cast.mate), f"/runs/{own.pk}/")


def test_the_files_tab_says_what_opens_a_trace(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run = training(cast, make_run)
    folder = places.output_folder(run.pk)
    (folder / "traces").mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"x")
    client = as_user(cast.viewer)
    assert "Perfetto" not in text_of(client, f"/runs/{run.pk}/files/")
    (folder / "traces" / "step-120.rank-1.json.gz").write_bytes(b"x")
    text = text_of(client, f"/runs/{run.pk}/files/?fragment=files")
    assert "traces/step-120.rank-1.json.gz" in text and "Perfetto" in text and "<html" not in text


def test_ranks_that_wait_for_one_that_ended_are_remarked_on_above_the_tabs(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    run = training(cast, make_run, spec=SCRIPT)
    first, second = run.attempts.get().placements.all()
    waiting = {"rank": 0, "group": "waiting", "waiting_since": 1_000.0, "ended_at": None}
    first.report = {"at": 1_075.0, "ranks": [waiting]}
    second.report = {"at": 1_075.0, "ranks": [{"rank": 1, "group": "none", "exit_code": 0, "ended_at": 1_010.0}]}
    first.save()
    second.save()
    sentence = "Rank 0 has waited 75 s in init_process_group() for rank 1, which has ended."
    assert sentence in text_of(as_user(cast.viewer), f"/runs/{run.pk}/")
