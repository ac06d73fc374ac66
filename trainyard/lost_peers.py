"""What a rank raises whose connection to another rank broke: it follows from that rank's end. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

STORE_ERRORS = ("DistNetworkError", "DistStoreError")
SIGNS = re.compile(
    r"gloo/transport/.*(?:closed|reset|refused|broken|error|timed out)|typically caused by a remote worker"
    r"|ncclRemoteError|remote process exited|NCCL communicator was aborted|Connection to .*store.* (?:lost|closed)",
    re.I | re.S,
)
PLACE = re.compile(r"^\[[^\]]*\.(?:cc|cpp|h):\d+\]\s*")
ADVICE = re.compile(r"\.?\s*(?:This is typically caused by|Check the logs of|GLHF).*", re.S)
MAX_CHARACTERS = 200


def is_of_lost_peer(error: Mapping[str, Any] | None) -> bool:
    """Whether the error (``type``, ``message``) says that another rank went away."""
    if not error:
        return False
    return error.get("type") in STORE_ERRORS or SIGNS.search(str(error.get("message") or "")) is not None


def lost_peer_sentence(who: str, error: Mapping[str, Any]) -> str:
    """Say it of ``who`` without the place in torch's source and the advice that torch adds."""
    lines = ADVICE.sub("", PLACE.sub("", str(error.get("message") or "").strip())).strip().splitlines()
    what = lines[0].rstrip(". ")[:MAX_CHARACTERS] if lines else str(error.get("type"))
    return f"{who} lost its connection to another rank ({what})."
