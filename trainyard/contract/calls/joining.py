"""A machine joins a cluster."""

import re
from typing import Annotated, NamedTuple

import msgspec

from trainyard.contract.base import Id, WireStruct
from trainyard.contract.machines import Inventory

NODE_UNKNOWN = "node-unknown"  # the code of the answer to whoever has no key of a node, or no longer
REMOVED_EXIT_CODE = 77  # of a node worker that got it: to start it again is of no use until it has joined again

_PINNED = re.compile(r"(?P<secret>.+)\.(?P<fingerprint>[0-9a-f]{64})")


class JoinToken(NamedTuple):
    """``fingerprint``: SHA-256 of the authority that has signed the server's certificate; empty where none is named."""

    secret: str
    fingerprint: str = ""


def pinned(secret: str, fingerprint: str) -> str:
    """Return the token as it is handed out: with the fingerprint by which a node knows the server."""
    return f"{secret}.{fingerprint}"


def unpinned(token: str) -> JoinToken:
    found = _PINNED.fullmatch(token)
    return JoinToken(found["secret"], found["fingerprint"]) if found else JoinToken(token)


class JoinRequest(WireStruct, kw_only=True):
    """``token`` is a cluster's join token. None: as many ranks at once as the machine is made for."""

    token: Annotated[str, msgspec.Meta(max_length=200)]
    name: Annotated[str, msgspec.Meta(max_length=60)]
    address: Annotated[str, msgspec.Meta(max_length=120)] = ""
    slots: Annotated[int, msgspec.Meta(ge=1, le=1024)] | None = None
    inventory: Inventory = msgspec.field(default_factory=Inventory)
    version: Annotated[str, msgspec.Meta(max_length=40)] = ""
    attempt: Id = ""  # that the node serves alone; its token is bound to it


class JoinAnswer(WireStruct):
    """Identity of the node from now on. ``key`` is shown this once.

    ``redis_tls_url`` is for a node on another machine, where ``redis_url`` is a socket of the server's machine.
    ``authorities`` are the certificates, as PEM, by which the node trusts both; empty: those of its system.
    """

    id: str
    name: str
    key: str
    redis_url: str
    cluster: str
    redis_tls_url: str = ""
    authorities: str = ""
