"""A node learns which of its runs the server has deleted."""

from typing import Annotated

import msgspec

from trainyard.contract.base import WireStruct

RunId = Annotated[str, msgspec.Meta(max_length=12)]


class RunList(WireStruct):
    runs: Annotated[list[RunId], msgspec.Meta(max_length=1_000)]


class DeletedRuns(WireStruct):
    gone: list[str]
