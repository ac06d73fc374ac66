"""Every REST operation of people with any body, query, header and name: the server answers, and never with a failure of
its own. (Requests made from the OpenAPI document, as every caller, are in tests/security.)"""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from hypothesis import strategies as st

from runs import actions
from runs.api import api
from tests.cast import Cast
from tests.dashboard.rules.matrix import Route, routes
from tests.dashboard.rules.outcomes import Caller
from tests.dashboard.rules.world import BODIES, QUERIES, World, make_world
from tests.fuzzed_requests import KINDS, Asked, Sender, headers, json_bodies, texts, with_query
from tests.fuzzing import mutated
from tests.servers import Valkey
from trainyard.bundle import pack_contents

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(7200)]
ODD_PARTS = ["nosuch", "0", "-1", "9" * 30, "x" * 300, "%00", "%ed%a0%80", "..", "a%2fb", "%ff"]


@pytest.fixture
def world(cast: Cast, valkey: Valkey, settings: Any) -> World:
    settings.RATE_PER_PERSON = settings.RATE_PER_TOKEN = 0
    return make_world(cast)


@pytest.mark.parametrize("caller", [Caller.OWNER, Caller.ADMINISTRATOR])
def test_no_request_of_a_person_makes_the_server_fail(world: World, caller: Caller) -> None:
    _, secret = actions.create_token(actor=world.users[caller], name="fuzzing")
    bearer = {"Authorization": f"Bearer {secret}"}
    sender = Sender(Client(), lambda one: one.get("/api/v1/me", headers=bearer).status_code == 200)
    parameters = {path: names_of(methods) for path, methods in api.get_openapi_schema()["paths"].items()}
    operations = [route for route in routes() if route.is_rest]
    assert len(operations) > 100
    examples = [requests_of(world, route, parameters.get(plain(route.path), []), bearer) for route in operations]
    sender.fuzz(st.one_of(examples), f"operations of REST, as {caller}")


def requests_of(world: World, route: Route, names: list[str], bearer: dict[str, str]) -> st.SearchStrategy[Asked]:
    """Requests that are nearly right: a part of the body, the query, a header or a name is odd."""
    path = world.path(route)
    others = [re.sub(r"[^/]+$", one, path, count=1) for one in ODD_PARTS]
    right = dict(pair.split("=") for pair in QUERIES.get(route.path, "").format(**world.ids).split("&") if pair)
    odd = st.dictionaries(st.sampled_from([*names, "limit", "cursor"]), texts, max_size=3)
    queries = odd.map(lambda changes: {**right, **changes})
    paths = st.builds(with_query, st.sampled_from([path] * 50 + others), queries)
    more = headers.map(lambda one: {**bearer, **one})
    if route.method == "GET":
        return st.builds(lambda path, more: Asked("GET", path, headers=more), paths, more)
    bodies = json_bodies(BODIES[str(route)]) if str(route) in BODIES else mutated(b"{}", pack_contents([])[0])
    kinds = st.sampled_from([KINDS[0]] * 8 + KINDS)
    return st.builds(lambda *parts: Asked(route.method, *parts), paths, bodies, kinds, more)


def names_of(methods: Any) -> list[str]:
    found = [one for method in methods.values() for one in method.get("parameters", []) if one["in"] == "query"]
    return [str(one["name"]) for one in found]


def plain(path: str) -> str:
    return re.sub(r"<(\w+)>", r"{\1}", path)
