"""A node's own REST calls: sealed with its key, bound to method, path, time and body.

A node that sends a large body names its digest in ``X-Trainyard-Digest``, so that a wrong seal is refused before the
body is read; whoever reads it then holds it against ``request.sealed_digest``.
"""

from __future__ import annotations

import hashlib
import re
import time
from dataclasses import dataclass

import structlog
from django.http import HttpRequest
from ninja.security import APIKeyHeader

from runs.models import Node
from workers.contract import BadSeal, check_mac, http_scope

log = structlog.get_logger(__name__)

MAX_AGE_S = 300
DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Seal:
    """Which node says that it sent something, when, and the code that only it can make."""

    node_id: str
    at: int  # Unix seconds
    mac: str

    @classmethod
    def from_headers(cls, node_id: str | None, value: str | None) -> Seal | None:
        """Return what ``X-Trainyard-Node`` and ``X-Trainyard-Seal`` say; None where that is no seal."""
        at, _, claimed = (value or "").partition(".")
        is_time = at.isascii() and at.isdigit() and len(at) <= 12
        return cls(node_id, int(at), claimed) if node_id and is_time else None


def node_of_seal(seal: Seal, method: str, path: str, digest: str) -> Node | None:
    """Return the node that sealed a request whose body has this SHA-256; None where the seal is old or not its."""
    if abs(time.time() - seal.at) > MAX_AGE_S or not DIGEST.fullmatch(digest) or "\0" in seal.node_id:
        return None
    node = Node.objects.filter(pk=seal.node_id, removed_at=None).first()
    if node is None:
        return None
    try:
        check_mac(node.key, http_scope(method, path, seal.at), digest.encode(), seal.mac)
    except (BadSeal, TypeError) as error:
        log.warning("node.bad_seal", node=node.name, path=path, error=str(error))
        return None
    return node


class NodeAuth(APIKeyHeader):
    """``X-Trainyard-Node: <id>`` and ``X-Trainyard-Seal: <unix time>.<mac>``."""

    param_name = "X-Trainyard-Seal"

    def authenticate(self, request: HttpRequest, key: str | None) -> Node | None:
        seal = Seal.from_headers(request.headers.get("X-Trainyard-Node"), key)
        if seal is None:
            return None
        named = request.headers.get("X-Trainyard-Digest")
        digest = hashlib.sha256(request.body).hexdigest() if named is None else named
        request.sealed_digest = digest  # type: ignore[attr-defined]
        return node_of_seal(seal, str(request.method), request.path, digest)
