"""A node sends what a run left: large files in parts, links, and a list of what stays on the node."""

from typing import Annotated

import msgspec

from trainyard.contract.base import Count, WireStruct
from trainyard.contract.limits import MAX_PATH

FilePath = Annotated[str, msgspec.Meta(max_length=MAX_PATH)]
Size = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]


class UploadRequest(WireStruct):
    """A file that comes in parts, or a link to the file ``same_as`` of the run."""

    path: FilePath
    size_bytes: Size
    key: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{16,64}$")]
    same_as: FilePath = ""


class UploadProgress(WireStruct):
    path: str  # where the file stands in the run's output
    offset: int  # where the next part begins
    is_done: bool


class GainedFile(WireStruct):
    path: FilePath
    size_bytes: Size


class GainedFiles(WireStruct):
    """Files of the working folder beside the code. All files are counted, some are named."""

    num_files: Count = 0
    bytes: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0
    files: Annotated[list[GainedFile], msgspec.Meta(max_length=1_000)] = []
