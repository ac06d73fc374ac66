"""/datasets for each role, and what nodes may say there."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from runs.models import Dataset, Node
from tests.cast import Cast, make_node
from tests.datasets import PICTURE, TABLE, asked, make_dataset
from tests.runs.api.conftest import Api
from tests.servers import Valkey
from trainyard.contract.seals import http_scope, mac
from trainyard.formats.pictures import png

As = Callable[[str], Api]
State = Dataset.State
NEW = {"name": "trees", "source": "csv", "location": "/data/trees.csv", "options": {"target": "height"}}
pytestmark = pytest.mark.usefixtures("valkey")


def test_a_member_adds_sees_checks_and_deletes(mate: Api) -> None:
    made = mate("POST", "/datasets", NEW)
    assert made.status_code == 201, made.content
    body = made.json()
    assert (body["state"], body["recipe"], body["created_by"], body["facts"]) == ("waiting", "tabular", "mate", {})
    Dataset.objects.update(state=State.READY, facts=TABLE, size_bytes=2_048)
    shown = mate("GET", f"/datasets/{body['id']}").json()
    assert (shown["num_rows"], shown["size_bytes"], shown["facts"]["kind"]) == (4, 2_048, "table")
    (item,) = mate("GET", "/datasets").json()["items"]
    assert item["id"] == body["id"] and "facts" not in item
    assert mate("POST", f"/datasets/{body['id']}/check").json()["state"] == "waiting"
    assert mate("DELETE", f"/datasets/{body['id']}").status_code == 204
    assert not Dataset.objects.exists()


def test_the_list_goes_on_behind_its_cursor_and_is_filtered(mate: Api, cast: Cast) -> None:
    for name in ("oaks", "elms", "limes"):
        make_dataset(cast, name)
    first = mate("GET", "/datasets?limit=2").json()
    second = mate("GET", f"/datasets?limit=2&cursor={first['next']}").json()
    assert [item["name"] for item in (*first["items"], *second["items"])] == ["elms", "limes", "oaks"]
    assert [item["name"] for item in mate("GET", "/datasets?name=oaks&project=default").json()["items"]] == ["oaks"]


def test_bad_data_is_refused_by_the_name_of_its_field(mate: Api) -> None:
    answer = mate("POST", "/datasets", {**NEW, "location": "trees.csv"})
    assert answer.status_code == 422
    assert [error["path"] for error in answer.json()["errors"]] == ["location"]


def test_a_name_that_is_taken_is_a_conflict(mate: Api, cast: Cast) -> None:
    make_dataset(cast)
    assert mate("POST", "/datasets", NEW).status_code == 409


# What nodes say


class Voice:
    """A node that was asked what is in a dataset."""

    def __init__(self, cast: Cast, as_: As) -> None:
        self.node = make_node(cast.cluster, "looker")
        self.dataset = asked(make_dataset(cast), self.node)
        self.nobody = as_("")

    def say(self, node: Node | None = None, **body: Any) -> Any:
        node = node or self.node
        path = f"/node/datasets/{self.dataset.pk}/answer"
        document = {"question": self.dataset.question, **body}
        digest = hashlib.sha256(json.dumps(document).encode()).hexdigest()
        at = int(time.time())
        seal = mac(node.key, http_scope("POST", f"/api/v1{path}", at), digest.encode())
        answer = self.nobody("POST", path, document, X_Trainyard_Node=node.pk, X_Trainyard_Seal=f"{at}.{seal}")
        self.dataset.refresh_from_db()
        return answer


@pytest.fixture
def voice(cast: Cast, as_: As) -> Voice:
    return Voice(cast, as_)


def test_a_node_says_what_it_found(voice: Voice) -> None:
    assert voice.say(facts=TABLE).status_code == 204
    assert (voice.dataset.state, voice.dataset.digest) == (State.READY, "ab" * 32)
    assert voice.dataset.facts["columns"][0]["mean"] == 2.5
    assert voice.dataset.facts["rows"] == TABLE["rows"]


def test_a_node_says_what_is_wrong(voice: Voice) -> None:
    assert voice.say(problem="There is no file /data/trees.csv.").status_code == 204
    assert (voice.dataset.state, voice.dataset.problem) == (State.FAILED, "There is no file /data/trees.csv.")


def test_pictures_are_kept_as_they_are(voice: Voice) -> None:
    picture = base64.b64encode(PICTURE).decode()
    assert voice.say(facts={"kind": "images", "images": [{"class": "oak", "png": picture}]}).status_code == 204
    assert voice.dataset.facts["images"] == [{"label": "oak", "png": picture}]


def test_nobody_else_may_answer(voice: Voice, mate: Api, cast: Cast) -> None:
    path = f"/node/datasets/{voice.dataset.pk}/answer"
    for person in (mate, voice.nobody):
        assert person("POST", path, {"question": voice.dataset.question, "facts": TABLE}).status_code == 401
    assert voice.say(make_node(cast.cluster, "other"), facts=TABLE).status_code == 409
    forger = make_node(cast.cluster, "forger")
    forger.pk, forger.id = voice.node.pk, voice.node.pk
    assert voice.say(forger, facts=TABLE).status_code == 401
    assert voice.dataset.state == State.CHECKING


def test_a_stale_answer_is_refused(voice: Voice) -> None:
    assert voice.say(question="d@1", facts=TABLE).status_code == 409
    assert voice.say(facts=TABLE).status_code == 204
    assert voice.say(problem="Once more.").status_code == 409
    assert voice.dataset.state == State.READY


def test_a_node_that_lost_its_place_is_not_heard(voice: Voice) -> None:
    Node.objects.update(removed_at="2026-01-01T00:00:00Z")
    assert voice.say(facts=TABLE).status_code == 401


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"kind": "spreadsheet"},
        {"kind": "table", "num_rows": -1},
        {"kind": "table", "digest": "abc"},
        {"kind": "table", "columns": [{"type": "number"}]},
        {"kind": "table", "columns": [{"name": "x" * 500}]},
        {"kind": "table", "columns": [{"name": "a", "mean": float("nan")}]},
        {"kind": "table", "rows": [[{"a": 1}]]},
        {"kind": "table", "rows": [[1]] * 31},
        {"kind": "text", "text": "x" * 3_001},
        {"kind": "images", "images": [{"class": "a", "png": "no base64!"}]},
        {"kind": "images", "images": [{"class": "a", "png": b64(b"<svg onload=alert(1)>")}]},
        {"kind": "images", "images": [{"class": "a", "png": b64(b"\xff\xd8\xff" + bytes(100))}]},
        {"kind": "images", "images": [{"class": "a", "png": b64(png(bytes(65 * 65), 65, 65, 1))}]},
        {"kind": "images", "images": [{"class": "a", "png": b64(PICTURE + bytes(20_000))}]},
        {"kind": "images", "images": [{"class": "a", "png": b64(PICTURE)}] * 25},
        {"kind": "table", "rows": [["x" * 400] * 10] * 30},
    ],
)
def test_facts_that_are_none_are_refused_and_change_nothing(voice: Voice, facts: dict[str, Any]) -> None:
    assert voice.say(facts=facts).status_code == 422
    assert voice.dataset.state == State.CHECKING


def test_an_answer_has_either_facts_or_a_problem(voice: Voice) -> None:
    assert voice.say(facts=TABLE, problem="Both.").status_code == 422
    assert voice.say().status_code == 422


def test_text_that_no_database_keeps_is_made_harmless(voice: Voice) -> None:
    facts = {"kind": "text", "text": "a\x00b \ud800 c", "unheard_of": 1}
    assert voice.say(facts=facts).status_code == 204
    assert voice.dataset.facts == {"kind": "text", "text": "a\ufffdb ? c"}


def test_valkey_may_be_away(mate: Api, valkey: Valkey) -> None:
    valkey.kill()
    assert mate("POST", "/datasets", NEW).status_code == 201
