"""A node's own REST calls: sealed with its key, bound to method, path, time and body, which is read here.

A node that sends a large body names its digest in ``X-Trainyard-Digest``, so that a wrong seal is refused before the
body is read; whoever reads it then holds it against ``request.sealed_digest``.
"""

import hashlib
import re
import time
from typing import NamedTuple, TypeVar

import msgspec
import structlog
from django.http import HttpRequest, HttpResponse
from ninja.errors import HttpError, ValidationError
from ninja.security import APIKeyHeader
from redis.exceptions import RedisError

from runs.api.openapi import body_of
from runs.api.problems import NodeUnknown
from runs.models import Node
from runs.serving.transport import redis
from trainyard.contract.base import BadDocument, JsonObject, WireStruct, decode, encode
from trainyard.contract.seals import PREFIX, BadSeal, check_mac, http_scope

log = structlog.get_logger(__name__)

MAX_AGE_S = 300
DIGEST = re.compile(r"[0-9a-f]{64}")
NONCE = re.compile(r"[0-9a-f]{32}")
UNKNOWN = "It was removed from its cluster, or another machine has joined under its name."
USED_KEY = f"{PREFIX}:control:used"  # the nonces of requests whose seals are not too old yet


class Seal(NamedTuple):
    """The node that claims to be the sender, the time, and the code that only this node can make."""

    node_id: str
    at: int  # Unix seconds
    mac: str
    nonce: str = ""

    @classmethod
    def from_headers(cls, node_id: str | None, value: str | None) -> "Seal | None":
        """Return what ``X-Trainyard-Node`` and ``X-Trainyard-Seal`` say; None where that is no seal."""
        at, _, rest = (value or "").partition(".")
        claimed, _, nonce = rest.partition(".")
        is_time = at.isascii() and at.isdigit() and len(at) <= 12
        is_seal = node_id and is_time and (not nonce or NONCE.fullmatch(nonce))
        return cls(str(node_id), int(at), claimed, nonce) if is_seal else None

    @property
    def is_fresh(self) -> bool:
        return abs(time.time() - self.at) <= MAX_AGE_S


def node_of_seal(seal: Seal, method: str, path: str, digest: str) -> Node | None:
    """Return the node that sealed a request whose body has this SHA-256; None where the seal is old or not its."""
    if not seal.is_fresh or not DIGEST.fullmatch(digest) or "\0" in seal.node_id:
        return None
    node = Node.objects.filter(pk=seal.node_id, removed_at=None).first()
    if node is None:
        return None
    try:
        check_mac(node.key, http_scope(method, path, seal.at, seal.nonce), digest.encode(), seal.mac)
    except (BadSeal, TypeError) as error:
        log.warning("node.bad_seal", node=node.name, path=path, error=str(error))
        return None
    return node


class NodeAuth(APIKeyHeader):
    """``X-Trainyard-Node: <id>`` and ``X-Trainyard-Seal: <unix time>.<mac>.<nonce>``, each nonce once. A node of the
    version before has no nonce: each of its seals counts once, so of two equal requests in one second the first."""

    param_name = "X-Trainyard-Seal"

    def authenticate(self, request: HttpRequest, key: str | None) -> Node | None:
        seal = Seal.from_headers(request.headers.get("X-Trainyard-Node"), key)
        if seal is None:
            return None
        named = request.headers.get("X-Trainyard-Digest")
        digest = hashlib.sha256(request.body).hexdigest() if named is None else named
        request.sealed_digest = digest  # type: ignore[attr-defined]
        node = node_of_seal(seal, str(request.method), request.path, digest)
        if node is None and seal.is_fresh:  # a clock that is wrong can be set; a key that is wrong stays wrong
            raise NodeUnknown(UNKNOWN)
        return node if node is not None and _is_new(node, seal) else None


def _is_new(node: Node, seal: Seal) -> bool:
    """Mark the nonce, or the seal without one, as used; return whether it was unused. Raises HttpError where that
    cannot be known."""
    try:
        is_new = redis().set(f"{USED_KEY}:{node.pk}:{seal.nonce or seal.mac}", 1, nx=True, ex=2 * MAX_AGE_S)
    except (RedisError, OSError) as error:
        raise HttpError(503, "Valkey is away: whether this request came before is not known. Try again.") from error
    if not is_new:
        log.warning("node.replayed", node=node.name)
    return bool(is_new)


# Bodies and answers of nodes' calls: the types of trainyard.contract, read and written by msgspec.

T = TypeVar("T")


def read_body(request: HttpRequest, kind: type[T], *, is_secret: bool = False) -> T:
    """Return the JSON of the request as its type. Raises ValidationError, which quotes a wrong value unless it
    ``is_secret``."""
    try:
        return decode(request.body, kind, is_secret=is_secret, takes_nan=False)
    except BadDocument as error:
        path, _, message = str(error).partition(": ")
        place = () if path == "the document" else ("body", path)
        raise ValidationError([{"loc": ("body", *place), "msg": message or str(error)}]) from error


def read_sealed_body(request: HttpRequest, kind: type[T]) -> T:
    """Return the body that the node sealed. Raises HttpError for another one, and what ``read_body`` raises."""
    if hashlib.sha256(request.body).hexdigest() != request.sealed_digest:  # type: ignore[attr-defined]
        raise HttpError(401, "The body is not the one that was sealed.")
    return read_body(request, kind)


def answer_with(document: WireStruct, status: int = 200) -> HttpResponse:
    return HttpResponse(encode(document), status=status, content_type="application/json")


def described(
    body: type[WireStruct] | None = None, answer: type[WireStruct] | None = None, status: int = 200
) -> JsonObject:
    """Return ``openapi_extra`` of a handler that reads ``body`` and answers with ``answer``."""
    found: JsonObject = body_of(msgspec.json.schema(body)) if body is not None else {}
    if answer is not None:
        content = {"application/json": {"schema": msgspec.json.schema(answer)}}
        found["responses"] = {status: {"content": content}}
    return found
