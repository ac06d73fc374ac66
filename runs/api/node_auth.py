"""A node's own REST calls: sealed with its key, bound to method, path, time and body."""

from __future__ import annotations

import hashlib
import time

import structlog
from django.http import HttpRequest
from ninja.security import APIKeyHeader

from runs.models import Node
from workers.contract import BadSeal, check_mac, http_scope

log = structlog.get_logger(__name__)

MAX_AGE_S = 300


class NodeAuth(APIKeyHeader):
    """``X-Trainyard-Node: <id>`` and ``X-Trainyard-Seal: <unix time>.<mac>``."""

    param_name = "X-Trainyard-Seal"

    def authenticate(self, request: HttpRequest, key: str | None) -> Node | None:
        node = Node.objects.filter(pk=request.headers.get("X-Trainyard-Node", ""), removed_at=None).first()
        at, _, claimed = (key or "").partition(".")
        if node is None or not at.isdigit() or len(at) > 12 or abs(time.time() - int(at)) > MAX_AGE_S:
            return None
        body = hashlib.sha256(request.body).hexdigest()
        try:
            check_mac(node.key, http_scope(str(request.method), request.path, int(at)), body.encode(), claimed)
        except (BadSeal, TypeError) as error:
            log.warning("node.bad_seal", node=node.name, path=request.path, error=str(error))
            return None
        return node
