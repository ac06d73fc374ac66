"""Every page with any query, form and upload: the server answers, and never with a failure of its own."""

from __future__ import annotations

import inspect
import re
import sys
from typing import Any

import pytest
from django.test import Client
from django.urls import resolve
from hypothesis import strategies as st

from tests.cast import Cast
from tests.dashboard.rules.matrix import Route, routes
from tests.dashboard.rules.outcomes import Caller
from tests.dashboard.rules.world import BODIES, World, make_world
from tests.fuzzed_requests import KINDS, Asked, Sender, headers, multipart, query, texts, with_query
from tests.fuzzing import mutated
from tests.servers import Valkey
from trainyard.bundle import pack_contents

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(7200)]
FIELD = re.compile(r"""(?:POST|GET|FILES)(?:\.get|\.getlist)?[(\[]["']([\w.-]+)["']""")
MORE = [
    "page",
    "sort",
    "order",
    "cursor",
    "fragment",
    "status",
    "tag",
    "csrfmiddlewaretoken",
    "trials",
    "settings.port",
]


@pytest.fixture
def world(cast: Cast, valkey: Valkey, settings: Any) -> World:
    settings.RATE_PER_PERSON = 0
    return make_world(cast)


@pytest.mark.parametrize("caller", [Caller.OWNER, Caller.ADMINISTRATOR])
def test_no_request_to_a_page_makes_the_server_fail(world: World, caller: Caller) -> None:
    client = Client()
    client.force_login(world.users[caller])
    pages = [route for route in routes() if not (route.is_rest or route.is_admin or route.is_socket)]
    assert len(pages) > 100
    sender = Sender(client, lambda one: one.get("/runs/").status_code == 200)
    sender.fuzz(st.one_of([requests_of(world, route) for route in pages]), f"pages, as {caller}")


def requests_of(world: World, route: Route) -> st.SearchStrategy[Asked]:
    """Requests that are nearly right: some fields are odd, at times the whole body is, or a name in the path."""
    path = world.path(route)
    names = sorted({*fields_of(path), *MORE})
    odd = st.dictionaries(st.sampled_from(names) | st.text(max_size=8), texts, max_size=3)
    others = [re.sub(r"[^/]+/$", one + "/", path, count=1) for one in ODD_PARTS]
    paths = st.builds(with_query, st.sampled_from([path] * 50 + others), odd)
    if route.method == "GET":
        return st.builds(lambda path, more: Asked("GET", path, headers=more), paths, headers)
    right = {key: value for key, value in form_of(world, route).items() if isinstance(value, str)}
    forms = odd.map(lambda changes: {**right, **changes})
    files = st.dictionaries(st.sampled_from(["archive", "files", "paths"]), st.tuples(texts, uploads()), max_size=2)
    bodies = st.one_of(
        forms.map(lambda form: (query(form).encode(), KINDS[1])),
        st.builds(multipart, forms, files),
        st.tuples(mutated(query(right).encode(), multipart(right, {})[0]), st.sampled_from(KINDS)),
    )
    return st.builds(lambda path, body, more: Asked(route.method, path, *body, more), paths, bodies, headers)


ODD_PARTS = ["nosuch", "0", "-1", "9" * 30, "x" * 300, "%00", "%ed%a0%80", "..", "a%2fb", "%ff"]


def form_of(world: World, route: Route) -> dict[str, Any]:
    base = {"project": "default", "run": world.ids["run_id"], "name": "new", "source": "text", "do": "launch"}
    return {**base, **BODIES.get(str(route), {})}


def uploads() -> st.SearchStrategy[bytes]:
    return mutated(pack_contents([])[0], b"PK\x03\x04" + bytes(40), b"\x1f\x8b\x08" + bytes(20), b"print(1)\n")


def fields_of(path: str) -> set[str]:
    """Return what the module of the page's view reads by name."""
    view = inspect.unwrap(resolve(path).func)
    return set(FIELD.findall(inspect.getsource(sys.modules[view.__module__])))
