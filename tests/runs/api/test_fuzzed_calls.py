"""Every REST call of nodes with any body and any names: the server answers, and never with a failure of its own."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client
from hypothesis import strategies as st

from runs.api import api
from runs.api.node_auth import NodeAuth
from runs.models import Node, Run
from runs.values.status import Phase, Status
from tests.cast import Cast, make_attempt, make_node
from tests.fuzzing import changed, fuzz, mutated
from tests.servers import Valkey
from trainyard.contract.seals import http_scope, mac

pytestmark = [pytest.mark.django_db(transaction=True, databases="__all__"), pytest.mark.timeout(7200)]

BODIES: list[Any] = [
    {"path": "a/b.bin", "size_bytes": 10, "key": "0" * 32, "same_as": ""},
    {"files": {"a": 1}, "num_files": 1, "num_bytes": 1},
    {"question": "q", "facts": {"kind": "table", "num_rows": 1, "columns": [{"name": "a"}]}, "problem": ""},
    {"runs": ["a", "b"]},
    {"token": "t", "name": "node-n", "address": "127.0.0.1", "slots": 1, "inventory": {"gpus": []}, "version": "1"},
]
ODD_NAMES = ["..", "a/../../b", "%00", "x" * 600, "-1", "9" * 30, "é", ".", "a\nb"]


def routes() -> Iterator[tuple[str, str]]:
    """Method and path of each call of nodes, and of joining, which anybody may try."""
    for prefix, router in api._routers:
        for path, view in router.path_operations.items():
            for operation in view.operations:
                is_nodes = any(isinstance(one, NodeAuth) for one in operation.auth_callbacks)
                if is_nodes or path == "/nodes/join":
                    for method in operation.methods:
                        yield method, f"/api/v1{prefix}{path}"


def test_no_call_of_a_node_makes_the_server_fail(
    cast: Cast, make_run: Callable[..., Run], valkey: Valkey, tmp_path: Any
) -> None:
    found = sorted(set(routes()))
    assert len(found) >= 8, found
    run, node = make_run(status=Status.RUNNING), make_node(cast.cluster)
    attempt = make_attempt(run, [node], phase=Phase.RUNNING)
    there = {"run_id": run.pk, "fence": "1", "attempt_id": attempt.pk, "key": "0" * 32, "offset": "0", "path": "a.txt"}
    client = Client(raise_request_exception=False)
    names = st.sampled_from(ODD_NAMES) | st.text(min_size=1, max_size=20)
    bodies = st.one_of([changed(one) for one in BODIES]).map(lambda one: json.dumps(one).encode())
    example = st.tuples(
        st.sampled_from(found),
        bodies | mutated(*(json.dumps(one).encode() for one in BODIES)),
        st.dictionaries(st.sampled_from(list(there)), names, max_size=1),
        st.sampled_from(["sealed", "sealed", "sealed", "odd", "digest"]),
        st.text(max_size=40),
    )

    def check(one: tuple[tuple[str, str], bytes, dict[str, str], str, str]) -> None:
        (method, pattern), body, others, how, odd = one
        path = re.sub(r"\{(?:\w+:)?(\w+)\}", lambda name: {**there, **others}.get(name[1], "x"), pattern)
        headers = _headers(node, method, path, body)
        if how != "sealed":
            name = {"odd": "X-Trainyard-Seal", "digest": "X-Trainyard-Digest"}[how]
            headers[name] = re.sub(r"[\r\n]", "", odd)
        url = quote(path, safe="/")
        response: Any = client.generic(method, url, body, content_type="application/octet-stream", headers=headers)
        if response.streaming:
            b"".join(response.streaming_content)
        assert response.status_code < 500 or response.status_code == 503, (method, path, body[:200])

    fuzz(example, check, "calls of nodes")


def _headers(node: Node, method: str, path: str, body: bytes) -> dict[str, str]:
    at, digest, nonce = int(time.time()), hashlib.sha256(body).hexdigest(), secrets.token_hex(16)
    seal = mac(node.key, http_scope(method, path, at, nonce), digest.encode("utf-8"))
    return {"X-Trainyard-Node": node.pk, "X-Trainyard-Seal": f"{at}.{seal}.{nonce}", "X-Trainyard-Digest": digest}
