"""What a node sends under its own seal may be anything: it must hurt nobody but that node."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from runs import actions
from runs.ingest.rounds import store_samples
from runs.ingest.troubles import Letters
from runs.life import reconcile
from runs.models import JoinToken, Node
from runs.models.access import digest_of
from runs.records.metrics.models import DeadLetter, NodeSample
from runs.serving.transport import redis
from tests.runs.life.reconcile.conftest import Yard
from tests.voices import Voice, rank
from trainyard.contract import seals

ODD = [
    {"inventory": [1, 2]},
    {"inventory": {"gpus": "many"}},
    {"inventory": {"gpus": [7]}},
    {"inventory": {"gpus": [{"name": "A100", "memory_bytes": "80 GB"}]}},
    {"inventory": {"cpu": 4}},
    {"inventory": {"slots": "four"}},
    {"inventory": {"slots": 0}},
    {"inventory": {"cpu": {"count": "four"}}},
    {"health": [1]},
    {"health": {"cpu_percent": "high"}},
    {"health": {"gpus": [3]}},
    {"health": {"load": float("nan")}},
    {"attempts": {"a": 5}},
    {"attempts": [1]},
    {"attempts": {"a": {"run": ["r"], "fence": 1}}},
    {"attempts": {"a": {"run": "r", "fence": "one"}}},
    {"inspecting": 5},
    {"troubles": {"a": 5}},
    {"address": {"host": "h"}},
    {"version": "v" * 500},
    {"at": "one|two"},
    {"at": {"a": 1}},
]


def say(voice: Voice, yard: Yard, **changes: Any) -> None:
    """Send an up document with these changes in it, sealed as the node's own are."""
    key = seals.up_key(voice.node.pk)
    document = {"at": yard.now.timestamp(), "node": voice.node.pk, "attempts": {}, **changes}
    redis().set(key, seals.seal(voice.node.key, key, document))


def api(yard: Yard) -> Client:
    _, secret = actions.create_token(actor=yard.cast.owner, name="test")
    return Client(headers={"Authorization": f"Bearer {secret}"}, raise_request_exception=False)


def pages(yard: Yard) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(yard.cast.owner)
    return client


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_an_up_document_of_another_shape_breaks_no_page_and_no_other_node(yard: Yard, odd: dict[str, Any]) -> None:
    for _ in range(3):
        yard.later(1)
        yard.voices[1].up(yard.now)
        say(yard.voices[0], yard, **odd)
        assert reconcile.tick(yard.now)
    assert api(yard).get("/api/v1/nodes").status_code == 200
    answer = api(yard).post("/api/v1/runs", json.dumps(yard.run.spec), content_type="application/json")
    assert answer.status_code == 201, answer.content
    for path in ("/nodes/", "/nodes/node-a/", "/launch/"):
        assert pages(yard).get(path).status_code == 200, path
    assert Node.objects.get(name="node-b").seen_at == yard.now


def test_an_inventory_of_another_shape_is_not_taken_and_the_node_stays_in_contact(yard: Yard) -> None:
    yard.tick()
    before = Node.objects.get(name="node-a").inventory
    yard.later(1)
    say(yard.voices[0], yard, inventory={"gpus": [7]})
    yard.later(2)
    reconcile.tick(yard.now)
    node = Node.objects.get(name="node-a")
    assert node.inventory == before and node.seen_at == yard.now


def test_a_document_that_is_nested_without_end_does_not_stop_the_tick(yard: Yard) -> None:
    key = seals.up_key(yard.voices[0].node.pk)
    body = "[" * 100_000
    redis().set(key, f"{seals.mac(yard.voices[0].node.key, key, body.encode())}.{body}")
    yard.later(1)
    yard.voices[1].up(yard.now)
    assert reconcile.tick(yard.now)
    assert Node.objects.get(name="node-b").seen_at == yard.now


@pytest.mark.parametrize(
    "odd",
    [
        {"ranks": [7]},
        {"ranks": [{"rank": "0"}]},
        {"ranks": [rank(0, 1e300)]},
        {"ranks": [rank(0, 10.0, signal=[9])]},
        {"ranks": [rank(0, 10.0, error="it broke")]},
        {"ranks": [rank(0, printed_at="now")]},
        {"ranks": {"a": 1}},
        {"reason": "it broke"},
        {"reason": {"code": ["a"], "sentence": "s", "evidence": {}}},
        {"reason": {"code": "a", "sentence": "s", "evidence": [1]}},
        {"producers": [1]},
        {"producers": {"p": "all"}},
    ],
    ids=str,
)
def test_a_report_of_another_shape_is_not_taken(yard: Yard, odd: dict[str, Any]) -> None:
    yard.start()
    yard.say("ended", 0, **odd)
    yard.tick()
    assert {one.phase for one in yard.placements} == {"running"}
    for tab in ("", "ranks/", "timeline/"):
        assert pages(yard).get(f"/runs/{yard.run.pk}/{tab}").status_code == 200, tab
    assert api(yard).get(f"/api/v1/runs/{yard.run.pk}").status_code == 200


def test_a_report_may_hold_what_no_database_takes_in_a_text(yard: Yard) -> None:
    yard.start()
    last = {"code": "rank_failed", "sentence": "It\0 failed\ud800.", "evidence": {"stderr": ["a\0b"]}}
    yard.say("ended", 0, reason=last, ranks=[rank(0, 10.0, exit_code=1)])
    yard.tick()
    (placement,) = [one for one in yard.placements if one.node_rank == 0]
    assert placement.report["reason"]["evidence"]["stderr"] == ["a\N{REPLACEMENT CHARACTER}b"]


@pytest.mark.parametrize("inventory", [{"gpus": "many"}, {"gpus": [7]}, {"cpu": 4}, {"hostname": 3}], ids=str)
def test_a_node_that_joins_with_an_inventory_of_another_shape_is_refused_by_name(
    yard: Yard, inventory: dict[str, Any]
) -> None:
    _, secret = actions.new_join_token(actor=yard.cast.owner, cluster=yard.cast.cluster)
    body = {"token": secret, "name": "node-c", "inventory": inventory}
    answer = Client(raise_request_exception=False).post(
        "/api/v1/nodes/join", json.dumps(body), content_type="application/json"
    )
    assert answer.status_code == 422 and answer.json()["errors"][0]["path"].startswith("inventory.")
    assert JoinToken.objects.get(digest=digest_of(secret)).used_at is None


@pytest.mark.parametrize("odd", [{"cpu_percent": "high"}, {"gpus": [3]}, {"load": [1]}], ids=str)
def test_a_health_sample_of_another_shape_is_a_dead_letter(yard: Yard, odd: dict[str, Any]) -> None:
    node, at = yard.voices[0].node, yard.now.timestamp()
    samples = [(node.pk, json.dumps({"at": at + n, **one}).encode()) for n, one in enumerate([odd, {"load": 1.0}])]
    store_samples(samples, Letters())
    assert (NodeSample.objects.count(), DeadLetter.objects.count()) == (1, 1)
    assert pages(yard).get("/nodes/node-a/").status_code == 200
