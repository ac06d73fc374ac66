"""Deny by default: every route and method, and every socket, refuses whoever is not named here.

The tests walk the URL resolver and the socket routes, so that a new one cannot be forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from channels.db import database_sync_to_async
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from dashboard.asgi import application
from dashboard.sockets.consumers import NOT_FOUND, UNKNOWN_USER, websocket_urlpatterns
from runs import actions
from runs.models import Dataset, GitKey, Invitation, Job, Membership, Node, Role, Run
from runs.values.status import Phase, Status
from tests.cast import Cast, make_attempt, make_node, make_run, make_sweep, spec
from tests.datasets import make_dataset
from tests.servers import Valkey
from tests.sockets import Socket

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
REFUSALS = {302, 401, 403, 404, 405}

# Whoever nobody knows may do this, and nothing else.
PUBLIC = {
    ("GET", "api/v1/health"),
    ("GET", "api/v1/openapi.json"),
    ("GET", "api/v1/docs"),
    ("POST", "api/v1/nodes/join"),  # with a join token in the body
    ("GET", "api/v1/authorities"),  # certificates
    ("GET", "sign-in/"),
    ("POST", "sign-in/"),
    ("GET", "sign-in/<str:secret>/"),
    ("POST", "sign-in/<str:secret>/"),
    ("GET", "invitations/<str:secret>/"),
    ("POST", "invitations/<str:secret>/"),
}
# These take any method, and show nothing.
SHOWS_NOTHING = {"api/v1/openapi.json", "api/v1/docs"}


class Route(NamedTuple):
    template: str
    view: Any


def routes(patterns: list[Any] | None = None, prefix: str = "") -> Iterator[Route]:
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        template = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, template)
        elif isinstance(pattern, URLPattern) and "(?P<" not in template:
            yield Route(template, pattern.callback)


@pytest.fixture
def ids(cast: Cast, valkey: Valkey) -> dict[str, str]:
    """A value for every parameter of every route: things of the cast's project."""
    node = make_node(cast.cluster, "node-x")
    run = make_run(cast, status=Status.RUNNING)
    attempt = make_attempt(run, [node], phase=Phase.RUNNING)
    job = actions.save_job(actor=cast.mate, document=spec())
    invitation, secret = actions.invite(actor=cast.owner, project=cast.project, role=Role.VIEWER)
    token, _ = actions.create_token(actor=cast.mate, name="x")
    kind = GitKey.Kind.TOKEN
    git_key = actions.add_git_key(actor=cast.owner, project=cast.project, kind=kind, place="example.org", secret="x")
    return {
        "run_id": run.pk,
        "local_id": "0" * 32,
        "job_id": job.pk,
        "dataset_id": make_dataset(cast).pk,
        "sweep_id": make_sweep(cast).pk,
        "number": "0",
        "cluster_id": cast.cluster.pk,
        "node_id": node.pk,
        "project_id": cast.project.pk,
        "invitation_id": invitation.pk,
        "user_id": str(cast.mate.pk),
        "username": "mate",
        "token_id": token.pk,
        "key_id": git_key.pk,
        "group_id": str(Group.objects.create(name="staff").pk),
        "secret": secret,
        "sha256": "a" * 64,
        "fence": str(attempt.fence),
        "verb": "stop",
        "path": "model.safetensors",
        "key": "0" * 16,
        "name": "SECRET",
        "attempt_id": attempt.pk,
        "offset": "0",
        "rest": "nothing",
        "object_id": "1",
        "app_label": "runs",
        "content_type_id": "1",
        "id": "1",
        "media_id": "1",
        "provider_id": "nosuch",
        "session_id": "nosuch",
        "factor_id": "1",
        "export_id": "nosuch",
        "person_id": str(cast.mate.pk),
    }


def path_of(template: str, ids: dict[str, str]) -> str:
    return "/" + re.sub(r"<(?:\w+:)?(\w+)>", lambda found: ids[found.group(1)], template)


def test_the_walk_meets_what_it_should() -> None:
    found = {route.template for route in routes()}
    assert {"api/v1/runs/<run_id>/stop", "runs/<slug:run_id>/", "admin/login/"} <= found
    assert {template for _, template in PUBLIC} <= found  # no exception for what is gone
    assert len(found) > 100


def test_nobody_gets_in_anywhere_but_where_it_is_public(ids: dict[str, str]) -> None:
    client = Client(raise_request_exception=False)
    admitted = []
    for route in routes():
        for method in METHODS:
            if (method, route.template) in PUBLIC or route.template in SHOWS_NOTHING:
                continue
            response = client.generic(method, path_of(route.template, ids))
            if response.status_code not in REFUSALS or _leads_further(response):
                admitted.append((method, route.template, response.status_code))
    assert admitted == []


def _leads_further(response: Any) -> bool:
    """A redirect is a refusal only when it leads to a way in."""
    return response.status_code == 302 and not response["Location"].startswith(("/sign-in/", "/admin/"))


@pytest.mark.extended  # the route matrix asks each route as an outsider: here with every method that there is
def test_for_an_outsider_nothing_of_others_is_there(ids: dict[str, str], cast: Cast) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(cast.outsider)
    before = _state()
    seen = []
    for route in routes():
        if "_id>" not in route.template or route.template.startswith("admin/"):  # the admin lets in staff only
            continue
        for method in METHODS:
            response = client.generic(method, path_of(route.template, ids), "{}", content_type="application/json")
            allowed = {404, 405} | ({401} if "api/v1/node/" in route.template else set())
            if response.status_code == 422:  # the body was looked at first: the same for what does not exist
                elsewhere = path_of(route.template, dict.fromkeys(ids, "nothing22"))
                response = client.generic(method, elsewhere, "{}", content_type="application/json")
                allowed = {422}
            if response.status_code not in allowed:
                seen.append((method, route.template, response.status_code))
    assert seen == []
    assert _state() == before


def test_lists_show_an_outsider_nothing(ids: dict[str, str], cast: Cast) -> None:
    client = Client()
    client.force_login(cast.outsider)
    for resource in ("runs", "jobs", "datasets", "sweeps", "clusters", "nodes", "projects"):
        assert client.get(f"/api/v1/{resource}").json() == {"items": [], "next": None}


@pytest.mark.extended
def test_a_viewer_changes_nothing(ids: dict[str, str], cast: Cast) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(cast.viewer)
    before = _state()
    for route in routes():
        if not route.template.startswith("api/v1/") or "_id>" not in route.template:
            continue
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            response = client.generic(method, path_of(route.template, ids), "{}", content_type="application/json")
            assert response.status_code in {401, 403, 404, 405, 422}, (method, route.template, response.status_code)
    assert _state() == before


def _state() -> dict[str, Any]:
    models = (Run, Job, Dataset, Node, Membership, Invitation)
    return {model.__name__: list(model.objects.order_by("pk").values()) for model in models}


def test_a_private_api_route_says_401_and_a_page_leads_to_the_sign_in(ids: dict[str, str]) -> None:
    client = Client()
    assert client.get(f"/api/v1/runs/{ids['run_id']}").status_code == 401
    assert client.get(f"/runs/{ids['run_id']}/").status_code == 302


# Sockets and whether they are about one thing, which an outsider may not see.
SOCKETS = {"ws/runs/<slug:run_id>/": True, "ws/runs/<slug:run_id>/session/": True, "ws/overview/": False}


def test_every_socket_is_named_here() -> None:
    assert {str(route.pattern) for route in websocket_urlpatterns} == SOCKETS.keys()


@pytest.mark.parametrize("pattern", SOCKETS)
async def test_no_socket_tells_nobody_anything(transactional_db: None, pattern: str, ids: dict[str, str]) -> None:
    assert await _closing_code(path_of(pattern, ids)) == UNKNOWN_USER


@pytest.mark.parametrize("path", ["/ws/nosuch/", "/ws/", "/", "/runs/abc/", "/ws/runs/a b/"])
async def test_a_socket_that_there_is_not_is_refused_before_the_handshake(path: str) -> None:
    socket = Socket(application, path, (b"host", b"127.0.0.1"), (b"origin", b"http://127.0.0.1"))
    await socket.send_input({"type": "websocket.connect"})
    assert await socket.receive_output(10) == {"type": "websocket.close", "code": NOT_FOUND}


async def test_an_outsider_hears_nothing_of_a_run(transactional_db: None, ids: dict[str, str], cast: Cast) -> None:
    _, secret = await database_sync_to_async(actions.create_token)(actor=cast.outsider, name="socket")
    for pattern in (pattern for pattern, is_about_one in SOCKETS.items() if is_about_one):
        assert await _closing_code(path_of(pattern, ids), secret) == NOT_FOUND


async def _closing_code(path: str, secret: str = "") -> int:
    headers = [(b"host", b"127.0.0.1"), (b"origin", b"http://127.0.0.1")]
    if secret:
        headers.append((b"authorization", f"Bearer {secret}".encode()))
    socket = Socket(application, path, *headers)
    assert await socket.connect()
    return await socket.closing_code()
