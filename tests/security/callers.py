"""The callers of the table of permissions, and a node, as senders of any request to REST."""

from __future__ import annotations

import hashlib
import secrets
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from django.core.signals import got_request_exception
from django.db import transaction
from django.test import Client
from django.utils import timezone
from requests import PreparedRequest

from runs import actions
from runs.models import Node
from runs.rights.access import Permission
from tests.dashboard.rules.outcomes import Caller
from tests.dashboard.rules.world import World
from trainyard.contract.seals import http_scope, mac

NODE = "node"  # seals whatever it sends with its own key
WITHOUT_SCOPE = [one.value for one in Permission if one.value.endswith(":read")]


@dataclass
class Answer:
    status: int
    kind: str  # of the content
    failure: str = ""  # what the server raised


@dataclass
class Callers:
    world: World
    _secrets: dict[str, str] = field(default_factory=dict)

    def names(self) -> Iterator[str]:
        yield from map(str, Caller)
        yield NODE

    def send(self, caller: str, request: PreparedRequest) -> Answer:
        """Send the request, read all of the answer, and take back what was done."""
        body, url = request.body or b"", str(request.path_url)
        data = body.encode() if isinstance(body, str) else bytes(body)
        headers = {name: str(value) for name, value in request.headers.items() if name.lower() != "content-length"}
        headers |= self._sealed(request, data) if caller == NODE else self._bearer(caller)
        kind = headers.pop("Content-Type", "application/octet-stream")
        raised: list[str] = []

        def note(sender: object, request: object = None, **_: object) -> None:
            raised.append(repr(sys.exc_info()[1]))

        got_request_exception.connect(note)
        try:
            with transaction.atomic():
                client = Client(raise_request_exception=False)
                response: Any = client.generic(str(request.method), url, data, content_type=kind, headers=headers)
                if response.streaming:
                    list(response.streaming_content)
                transaction.set_rollback(True)
        finally:
            got_request_exception.disconnect(note)
        return Answer(response.status_code, response.get("Content-Type", ""), ", ".join(raised))

    def _bearer(self, caller: str) -> dict[str, str]:
        if caller == Caller.ANONYMOUS:
            return {}
        if caller not in self._secrets:
            self._secrets[caller] = self._make_token(Caller(caller))
        return {"Authorization": f"Bearer {self._secrets[caller]}"}

    def _make_token(self, caller: Caller) -> str:
        person = self.world.users.get(caller, self.world.users[Caller.ADMINISTRATOR])
        scopes = WITHOUT_SCOPE if caller == Caller.WITHOUT_SCOPE else None
        token, secret = actions.create_token(actor=person, name="fuzzing", scopes=scopes)
        if caller == Caller.REVOKED_TOKEN:
            token.revoked_at = timezone.now()
            token.save()
        return secret

    def _sealed(self, request: PreparedRequest, data: bytes) -> dict[str, str]:
        node = Node.objects.get(pk=self.world.ids["node_id"])
        at, digest, nonce = int(time.time()), hashlib.sha256(data).hexdigest(), secrets.token_hex(16)
        path = unquote(str(request.path_url).partition("?")[0])
        seal = mac(node.key, http_scope(str(request.method), path, at, nonce), digest.encode())
        return {"X-Trainyard-Node": node.pk, "X-Trainyard-Seal": f"{at}.{seal}.{nonce}", "X-Trainyard-Digest": digest}
