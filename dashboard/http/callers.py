"""Whether the headers of a request alone show who sends it, before anything of its body is read."""

from __future__ import annotations

from typing import Literal

from channels.db import database_sync_to_async
from django.http.cookie import parse_cookie

from dashboard.http.asgi import Scope
from dashboard.http.credentials import credential_of, users_of
from runs.api.machines.node_auth import Seal, node_of_seal


async def is_known(scope: Scope, caller: Literal["person", "node"]) -> bool:
    """Whether a token or a session opens something, or the seal is a node's. The view asks again, and for more."""
    look = _is_node if caller == "node" else _is_person
    return bool(await database_sync_to_async(look)(scope))


def _is_person(scope: Scope) -> bool:
    cookies = b"; ".join(value for name, value in scope["headers"] if name == b"cookie").decode("latin1")
    credential = credential_of({**scope, "cookies": parse_cookie(cookies)})
    return bool(credential.secret) and credential in users_of([credential])


def _is_node(scope: Scope) -> bool:
    headers = {name.decode("latin1"): value.decode("latin1") for name, value in scope["headers"]}
    seal = Seal.from_headers(headers.get("x-trainyard-node"), headers.get("x-trainyard-seal"))
    digest = headers.get("x-trainyard-digest", "")  # without it nobody knows whose it is before all of it was read
    return seal is not None and node_of_seal(seal, scope["method"], scope["path"], digest) is not None
