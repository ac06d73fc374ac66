"""Large files in parts, links, and the names of several nodes' files: through the routes that nodes call."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from pathlib import Path
from typing import Any

import pytest

from runs import actions
from runs.models import Attempt, Node, Placement
from runs.records.files import outputs, room
from runs.values.status import Phase, Status
from tests.cast import Cast, make_attempt, make_node, make_run
from tests.runs.api.conftest import Api
from trainyard.contract.seals import http_scope, mac

pytestmark = pytest.mark.usefixtures("valkey")
KEY = "0123456789abcdef"


class Sender:
    """One node of an attempt, with its seal on everything."""

    def __init__(self, anybody: Api, attempt: Attempt, node: Node) -> None:
        self._anybody, self._attempt, self._node = anybody, attempt, node

    def __call__(self, method: str, place: str, body: Any, *, sealed: bytes | None = None) -> Any:
        data = sealed or (body if isinstance(body, bytes) else json.dumps(body).encode())
        path = f"/node/runs/{self._attempt.run_id}/fences/{self._attempt.fence}/{place}"
        at, digest = int(time.time()), hashlib.sha256(data).hexdigest()
        seal = mac(
            self._node.key, http_scope(method, f"/api/v1{path}", at, nonce := secrets.token_hex(16)), digest.encode()
        )
        headers = {
            "X_Trainyard_Node": self._node.pk,
            "X_Trainyard_Seal": f"{at}.{seal}.{nonce}",
            "X_Trainyard_Digest": digest,
        }
        return self._anybody(method, path, body, **headers)

    def begin(self, path: str, size: int, key: str = KEY, **more: Any) -> Any:
        return self("POST", "uploads", {"path": path, "size_bytes": size, "key": key, **more})


@pytest.fixture
def attempt(cast: Cast) -> Attempt:
    nodes = [make_node(cast.cluster, name) for name in ("one", "two", "three")]
    return make_attempt(make_run(cast, status=Status.RUNNING), nodes, phase=Phase.RUNNING)


@pytest.fixture
def senders(as_: Any, attempt: Attempt) -> list[Sender]:
    return [Sender(as_(""), attempt, one.node) for one in attempt.placements.select_related("node")]


def names(attempt: Attempt) -> dict[str, bytes]:
    root = outputs.output_folder(attempt.run_id)
    return {one["path"]: (root / one["path"]).read_bytes() for one in outputs.listing(attempt.run_id)}


def test_a_file_comes_in_parts_and_is_there_when_it_is_whole(senders: list[Sender], attempt: Attempt) -> None:
    node = senders[0]
    assert node.begin("big.pt", 10).json() == {"path": "big.pt", "offset": 0, "is_done": False}
    assert node("PUT", f"uploads/{KEY}/0", b"01234").json()["offset"] == 5
    assert names(attempt) == {}
    # A part that came although its answer was lost; then the node that starts anew and asks.
    assert node("PUT", f"uploads/{KEY}/0", b"01234").json() == {"path": "", "offset": 5, "is_done": False}
    assert node.begin("big.pt", 10).json()["offset"] == 5
    assert node("PUT", f"uploads/{KEY}/5", b"56789").json()["is_done"]
    assert names(attempt) == {"big.pt": b"0123456789"}
    assert node("PUT", f"uploads/{KEY}/10", b"x").status_code == 428


@pytest.mark.parametrize(
    ("place", "body"),
    [
        ("uploads", {"path": "big.pt", "size_bytes": 10, "key": KEY}),
        ("gained", {"num_files": 1, "bytes": 1, "files": [{"path": "left.txt", "size_bytes": 1}]}),
    ],
)
def test_another_body_than_the_one_that_was_sealed_is_refused(
    senders: list[Sender], attempt: Attempt, place: str, body: dict[str, Any]
) -> None:
    assert senders[0]("POST", place, body, sealed=b"{}").status_code == 401
    assert senders[0]("POST", place, body).status_code in (200, 204)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"size_bytes": -1}, "size_bytes"),
        ({"key": "short"}, "key"),
        ({"path": 7}, "path"),
        ({"size_bytes": None}, "size"),
    ],
)
def test_a_body_of_another_shape_is_refused_by_the_name_of_its_field(
    senders: list[Sender], change: dict[str, Any], path: str
) -> None:
    answer = senders[0]("POST", "uploads", {"path": "big.pt", "size_bytes": 10, "key": KEY, **change})
    assert answer.status_code == 422 and answer.json()["errors"][0]["path"].startswith(path)


def test_another_version_of_a_file_begins_anew(senders: list[Sender], attempt: Attempt) -> None:
    senders[0].begin("big.pt", 10)
    senders[0]("PUT", f"uploads/{KEY}/0", b"01234")
    assert senders[0].begin("big.pt", 4).json()["offset"] == 0
    assert senders[0]("PUT", f"uploads/{KEY}/0", b"abcde").status_code == 422, "more than was announced"


def test_files_of_one_name_on_several_nodes_are_all_kept(senders: list[Sender], attempt: Attempt) -> None:
    one, two, three = senders
    assert two("PUT", "files/log.txt", b"two").status_code == 204
    assert three("PUT", "files/log.txt", b"three").status_code == 204
    assert three("PUT", "files/shard-3.pt", b"alone").status_code == 204
    assert one("PUT", "files/log.txt", b"one").status_code == 204  # rank 0's has its name in any case
    assert two("PUT", "files/log.txt", b"two again").status_code == 204
    assert names(attempt) == {
        "log.txt": b"one",
        "shard-3.pt": b"alone",
        "node-1/log.txt": b"two again",
        "node-2/log.txt": b"three",
    }


def test_a_link_is_the_file_that_it_names_and_takes_no_more_room(senders: list[Sender], attempt: Attempt) -> None:
    senders[0]("PUT", "files/epoch-9.pt", b"weights")
    assert senders[0].begin("latest.pt", 7, same_as="epoch-9.pt").json()["is_done"]
    assert names(attempt) == {"epoch-9.pt": b"weights", "latest.pt": b"weights"}
    root = outputs.output_folder(attempt.run_id)
    assert (root / "latest.pt").samefile(root / "epoch-9.pt")
    assert senders[0].begin("latest.pt", 7, same_as="epoch-9.pt").status_code == 200, "again is harmless"
    assert sorted(path.name for path in root.iterdir()) == ["epoch-9.pt", "latest.pt"]
    for same_as in ("gone.pt", "../../etc/passwd"):
        assert senders[0].begin("latest.pt", 7, same_as=same_as).status_code == 422


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", ".partial-x", ""])
def test_no_path_leads_out_of_the_folder(senders: list[Sender], attempt: Attempt, path: str) -> None:
    assert senders[0].begin(path, 10).status_code == 422
    assert senders[0].begin("x", 10, key="../../../../tmp/x").status_code == 422
    assert names(attempt) == {}


def test_what_is_too_much_is_refused_with_the_limit(
    senders: list[Sender], attempt: Attempt, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.OUTPUT_LIMIT_BYTES = 100
    assert senders[0]("PUT", "files/a", b"x" * 60).status_code == 204
    answer = senders[0].begin("b", 60)
    assert answer.status_code == 413 and "at most 100 bytes" in answer.json()["detail"]
    settings.OUTPUT_LIMIT_BYTES = 0
    assert senders[0].begin("b", 60).status_code == 200


def test_a_full_disk_is_no_refusal(senders: list[Sender], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "RESERVE_BYTES", 2**60)
    answer = senders[0].begin("b", 60)
    assert answer.status_code == 507 and "bytes left" in answer.json()["detail"]


def test_what_is_left_on_nodes_is_listed_and_decided_about(
    senders: list[Sender], attempt: Attempt, as_: Any, mate: Api, cast: Cast
) -> None:
    run = attempt.run
    document = {"num_files": 1, "bytes": 9, "files": [{"path": "snapshot.pt", "size_bytes": 9}]}
    assert senders[1]("POST", "gained", document).status_code == 204
    assert mate("GET", f"/runs/{run.pk}/files").json()["left"] == [], "while it runs nothing waits for anybody"
    attempt.ended_at = attempt.created_at
    attempt.save()
    (left,) = mate("GET", f"/runs/{run.pk}/files").json()["left"]
    assert (left["node"], left["num_files"], left["files"], left["decision"]) == ("two", 1, document["files"], "")
    path = f"/runs/{run.pk}/leftovers"
    assert mate("POST", path, {"decision": "burn"}).status_code == 422
    assert mate("POST", path, {"decision": "upload"}).json()["left"][0]["decision"] == "upload"
    assert mate("POST", path, {"decision": "upload"}).status_code == 409
    assert run.events.get(code="leftovers-upload").sentence.endswith("left on two: they are sent now.")
    senders[1]("POST", "gained", {"num_files": 0, "bytes": 0, "files": []})
    assert mate("GET", f"/runs/{run.pk}/files").json()["left"] == []
    assert not Placement.objects.exclude(leftovers="").exists()
    with pytest.raises(actions.Refused):
        actions.decide_leftovers(actor=cast.mate, run=run, word="discard")


def test_uploads_that_each_fit_and_not_together_are_not_both_begun(
    senders: list[Sender], attempt: Attempt, settings: Any
) -> None:
    settings.OUTPUT_LIMIT_BYTES = 100
    one, two, _ = senders
    assert one.begin("a.pt", 60).status_code == 200
    assert two.begin("b.pt", 60, key="b" * 16).status_code == 413
    assert one.begin("a.pt", 60).status_code == 200, "itself again takes no more room"
    one("PUT", f"uploads/{KEY}/0", b"a" * 30)
    assert one.begin("a.pt", 60).json()["offset"] == 30
    one("PUT", f"uploads/{KEY}/30", b"a" * 30)
    assert two.begin("b.pt", 60, key="b" * 16).status_code == 413, "it is whole, and takes as much"
    assert two.begin("b.pt", 40, key="b" * 16).status_code == 200
    assert one("PUT", "files/small.txt", b"x").status_code == 413


def test_the_disk_is_promised_once(
    senders: list[Sender], cast: Cast, as_: Any, monkeypatch: Any, settings: Any, tmp_path: Path
) -> None:
    settings.HOME = tmp_path
    free = room.RESERVE_BYTES + 100
    monkeypatch.setattr(room, "free_bytes", lambda: free)
    node = make_node(cast.cluster, "elsewhere")
    other = Sender(as_(""), make_attempt(make_run(cast, status=Status.RUNNING), [node], phase=Phase.RUNNING), node)
    assert senders[0].begin("a.pt", 60).status_code == 200
    assert other.begin("b.pt", 60).status_code == 507


def test_an_upload_without_progress_for_an_hour_keeps_no_room(
    senders: list[Sender], settings: Any, monkeypatch: Any
) -> None:
    settings.OUTPUT_LIMIT_BYTES = 100
    senders[0].begin("a.pt", 60)
    monkeypatch.setattr(room, "PROMISED_S", -1.0)
    assert senders[1].begin("b.pt", 60).status_code == 200


def test_a_part_is_taken_from_the_node_that_began_the_file_alone(senders: list[Sender], attempt: Attempt) -> None:
    one, two, _ = senders
    assert one.begin("big.pt", 10).status_code == 200
    assert two("PUT", f"uploads/{KEY}/0", b"forged").status_code == 428
    # The same key of another node is a file of its own: it neither goes on with the first one's nor removes it.
    assert one("PUT", f"uploads/{KEY}/0", b"01234").json()["offset"] == 5
    assert two.begin("big.pt", 10).json() == {"path": "node-1/big.pt", "offset": 0, "is_done": False}
    assert one("PUT", f"uploads/{KEY}/5", b"56789").json()["is_done"]
    assert names(attempt) == {"big.pt": b"0123456789"}
