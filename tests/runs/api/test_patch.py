"""A PATCH of one field changes nothing else, whichever resource takes one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from runs import actions
from runs.api import api
from runs.models import Cluster, User
from tests.cast import Cast, make_node, make_run, make_user, spec
from tests.runs.api.conftest import Api

pytestmark = pytest.mark.usefixtures("valkey")

SETTINGS = {"folder": "/shared", "machines": 5, "slots": 3, "memory": "16G", "options": ["nodelist=a"]}


def a_run(user: User, cast: Cast) -> str:
    run = make_run(cast)
    actions.tag_run(actor=cast.owner, run=run, tags=["kept"])
    actions.note_run(actor=cast.owner, run=run, notes="kept")
    return run.pk


def a_sweep(user: User, cast: Cast) -> str:
    document = {
        "name": "search",
        "base": spec(),
        "space": {"train.learning_rate": {"low": 1e-3, "high": 1e-2}, "train.seed": {"values": [1, 2]}},
        "objective": {"metric": "val/loss", "direction": "minimize"},
        "budget": {"trials": 5, "parallel": 2},
        "sampler": "random",
        "pruner": "none",
    }
    made = Api(user)("POST", "/sweeps", document)
    assert made.status_code == 201, made.json()
    return str(made.json()["id"])


def a_node(user: User, cast: Cast) -> str:
    return str(make_node(cast.cluster).pk)


def a_cluster(user: User, cast: Cast) -> str:
    made = actions.create_cluster(
        actor=user, name="far", region="eu", labels={"rack": "1", "row": "2"}, projects=["default"], engine="slurm",
        settings=SETTINGS, log_rules=["slow notify: slow"], spares=2, interactive=True, isolation_minimum=1,
        scheduling="equal-shares",
    )  # fmt: skip
    return made.pk


def a_rule(user: User, cast: Cast) -> str:
    return actions.save_notice_rule(
        actor=user, project=None, where="webhook", kinds={"waits": 60}, only_mine=True,
        destination="https://1.1.1.1/hook", every="hour",
    ).pk  # fmt: skip


def a_sleeper(user: User, cast: Cast) -> str:
    actions.set_quiet_hours(actor=user, begins="22:00", ends="07:00", zone="UTC", spares_errors=False)
    return ""


# By operation: what makes one, and a change for each field of its body.
PATCHES: dict[str, tuple[Callable[[User, Cast], str], dict[str, Any]]] = {
    "/runs/{run_id}": (a_run, {"tags": ["new"], "notes": "new", "priority": 60}),
    "/sweeps/{sweep_id}": (
        a_sweep,
        {"space": {"train.seed": {"values": [1, 2, 3]}}, "budget": {"trials": 9}},
    ),
    "/me": (
        a_sleeper,
        {
            "name": "New Name",
            "quiet_hours": {"begins": "21:30", "ends": "06:00", "zone": "Europe/Berlin", "spares_errors": True},
        },
    ),
    "/notices/rules/{rule_id}": (
        a_rule,
        {"destination": "https://1.0.0.1/other", "kinds": {"waits": 30}, "only_mine": False, "every": "day"},
    ),
    "/nodes/{node_id}": (a_node, {"slots": 7}),
    "/clusters/{cluster_id}": (
        a_cluster,
        {
            "name": "near", "region": "us", "labels": {"row": "3"}, "spares": 0, "interactive": False,
            "isolation_minimum": 0, "scheduling": "first-come", "projects": [],
            "half_life_days": 14, "spared_minutes": 10, "slot_hour_price": 2, "topology": ["switch", "rack"],
            "idle_action": "stop", "idle_below": 10, "idle_minutes": 60,
            "settings": {"slots": 4}, "log_rules": [],
        },
    ),
}  # fmt: skip


SHOWN = {"destination": "shown"}  # what an answer has in the place of a secret


def bodies() -> dict[str, set[str]]:
    """Return the fields of each PATCH's body, by its path."""
    document = json.loads(json.dumps(api.get_openapi_schema(path_prefix="")))
    found = {}
    for path, methods in document["paths"].items():
        if "patch" in methods:
            schema = methods["patch"]["requestBody"]["content"]["application/json"]["schema"]
            if "$ref" in schema:
                schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
            found[path] = set(schema["properties"])
    return found


def test_every_field_of_every_patch_is_tried() -> None:
    assert bodies() == {path: set(fields) for path, (_, fields) in PATCHES.items()}


def leaves(document: Any, at: str = "") -> dict[str, Any]:
    """Return the values of objects in objects, by their path."""
    if not isinstance(document, dict):
        return {at: document}
    return {place: one for name, part in document.items() for place, one in leaves(part, f"{at}/{name}").items()}


@pytest.mark.parametrize(("path", "field"), [(path, one) for path, (_, fields) in PATCHES.items() for one in fields])
def test_nothing_but_what_was_named_changes(cast: Cast, path: str, field: str) -> None:
    root = make_user("root", is_staff=True, is_superuser=True)
    make, changes = PATCHES[path]
    call, place = Api(root), path.partition("{")[0] + make(root, cast)
    before = leaves(call("GET", place).json())
    answer = call("PATCH", place, {field: changes[field]})
    assert answer.status_code == 200, answer.json()
    after = leaves(call("GET", place).json())
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    named = {
        name
        for name in changed
        if any(f"{name}/".endswith(f"{one}/") for one in leaves({SHOWN.get(field, field): changes[field]}))
    }
    others = {name for name in changed - named if not name.startswith("/time/")}  # which goes on
    assert named and others <= {"/trials_total"}, changed


def test_null_removes_a_label_and_makes_a_setting_its_default_again(cast: Cast) -> None:
    root = make_user("root", is_staff=True, is_superuser=True)
    place = f"/clusters/{a_cluster(root, cast)}"
    Api(root)("PATCH", place, {"labels": {"row": None}, "settings": {"slots": None, "memory": ""}})
    cluster = Cluster.objects.get(name="far")
    assert cluster.labels == {"rack": "1"}
    assert cluster.settings == {**cluster.settings, **SETTINGS, "slots": 1, "memory": ""}
