"""Since when control has listened without a pause: silence from before that proves nothing."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from runs.serving.transport import redis
from trainyard.contract import keys

TICK_KEY = f"{keys.PREFIX}:control:tick"  # Unix seconds of the last tick: /health shows its age
SINCE_KEY = f"{keys.PREFIX}:control:since"
AWAY_S = 5.0  # a longer pause between ticks means that control was away, and knows nothing of that time


def listening_since(now: datetime) -> float:
    """Return when control began to listen without a pause, in Unix seconds. Control calls it in each tick."""
    since = _known_since(now)
    if since is None:
        since = now.timestamp()
        redis().set(SINCE_KEY, since)
    return since


def listened_s(now: datetime) -> float:
    """Return for how many seconds control has listened without a pause; 0 while it is away."""
    since = _known_since(now)
    return 0.0 if since is None else max(0.0, now.timestamp() - since)


def _known_since(now: datetime) -> float | None:
    last, since = cast("list[bytes | None]", redis().mget([TICK_KEY, SINCE_KEY]))
    if last is None or since is None or now.timestamp() - float(last) > AWAY_S:
        return None
    return float(since)
