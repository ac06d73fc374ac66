"""A node's own REST calls: sealed with its key, bound to method, path, time and body.

A node that sends a large body names its digest in ``X-Trainyard-Digest``, so that a wrong seal is refused before the
body is read; whoever reads it then holds it against ``request.sealed_digest``.
"""

from __future__ import annotations

import hashlib
import re
import time

import structlog
from django.http import HttpRequest
from ninja.security import APIKeyHeader

from runs.models import Node
from workers.contract import BadSeal, check_mac, http_scope

log = structlog.get_logger(__name__)

MAX_AGE_S = 300
DIGEST = re.compile(r"[0-9a-f]{64}")


class NodeAuth(APIKeyHeader):
    """``X-Trainyard-Node: <id>`` and ``X-Trainyard-Seal: <unix time>.<mac>``."""

    param_name = "X-Trainyard-Seal"

    def authenticate(self, request: HttpRequest, key: str | None) -> Node | None:
        node = Node.objects.filter(pk=request.headers.get("X-Trainyard-Node", ""), removed_at=None).first()
        at, _, claimed = (key or "").partition(".")
        if node is None or not at.isdigit() or len(at) > 12 or abs(time.time() - int(at)) > MAX_AGE_S:
            return None
        named = request.headers.get("X-Trainyard-Digest")
        digest = hashlib.sha256(request.body).hexdigest() if named is None else named
        if not DIGEST.fullmatch(digest):
            return None
        request.sealed_digest = digest  # type: ignore[attr-defined]
        try:
            check_mac(node.key, http_scope(str(request.method), request.path, int(at)), digest.encode(), claimed)
        except (BadSeal, TypeError) as error:
            log.warning("node.bad_seal", node=node.name, path=request.path, error=str(error))
            return None
        return node
