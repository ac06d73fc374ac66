"""A machine joins a cluster."""

from __future__ import annotations

from typing import Annotated

import msgspec

from trainyard.contract.base import Id, WireStruct
from trainyard.contract.machines import Inventory


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
    """What the node is from now on. ``key`` is shown this once."""

    id: str
    name: str
    key: str
    redis_url: str
    cluster: str
