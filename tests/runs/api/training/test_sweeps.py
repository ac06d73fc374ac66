"""REST of sweeps: what PRODUCT promises, and who may do what."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from runs.models import Sweep
from runs.sweeps.stepping import Stepper
from tests.cast import Cast, spec

pytestmark = pytest.mark.usefixtures("valkey")


def document(**changes: Any) -> dict[str, Any]:
    return {
        "name": "search",
        "base": spec(),
        "space": {"train.learning_rate": {"low": 1e-4, "high": 1e-1, "log": True}},
        "objective": {"metric": "val/loss", "direction": "minimize"},
        "budget": {"trials": 2, "parallel": 1},
        "sampler": "random",
        "pruner": "none",
        **changes,
    }


def client(user: Any) -> Client:
    found = Client()
    found.force_login(user)
    return found


def post(user: Any, path: str, body: Any = None) -> Any:
    return client(user).post(f"/api/v1/{path}", body or {}, content_type="application/json")


def test_a_sweep_is_started_shown_paused_resumed_and_stopped(cast: Cast) -> None:
    from django.utils import timezone

    made = post(cast.mate, "sweeps", document())
    assert made.status_code == 201, made.json()
    found = made.json()
    assert (found["status"], found["best"], found["trials"]) == ("RUNNING", None, [])
    Stepper().step_all(timezone.now())
    shown = client(cast.viewer).get(f"/api/v1/sweeps/{found['id']}").json()
    one = shown["trials"][0]
    assert (one["number"], one["state"], one["value"]) == (0, "RUNNING", None)
    assert one["run"] and list(one["parameters"]) == ["train.learning_rate"]
    assert [row["id"] for row in client(cast.viewer).get("/api/v1/sweeps").json()["items"]] == [found["id"]]
    assert post(cast.mate, f"sweeps/{found['id']}/resume").status_code == 409
    for verb, status in (("pause", "PAUSED"), ("resume", "RUNNING"), ("stop", "STOPPING")):
        assert post(cast.mate, f"sweeps/{found['id']}/{verb}").json()["status"] == status


def test_a_bad_sweep_is_refused_with_its_paths(cast: Cast) -> None:
    answer = post(cast.mate, "sweeps", document(space={"train.lr": {"low": 1, "high": 2}}, budget={"trials": 0}))
    assert answer.status_code == 422
    assert [one["path"] for one in answer.json()["errors"]] == ["budget.trials"]
    answer = post(cast.mate, "sweeps", document(space={"train.lr": {"low": 1, "high": 2}}))
    assert [one["path"] for one in answer.json()["errors"]] == ["space.train.lr"]
    assert not Sweep.objects.exists()


def test_a_preview_writes_nothing(cast: Cast) -> None:
    answer = post(cast.mate, "sweeps/preview", document())
    assert answer.status_code == 200, answer.json()
    assert (answer.json()["trials"], answer.json()["num_refused"]) == (2, 0)
    assert not Sweep.objects.exists()
