"""State of the server itself: its database, Valkey, control, ingest and disk.

``/health`` answers with this, and every page shows its sentences in a banner.
"""

import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

import redis
from django.conf import settings
from django.db import DatabaseError, connections

from runs.ingest.lock import lock_key
from runs.models import Node
from runs.recovery.fencing import TICK_KEY
from runs.rights.valkey_users import NO_USERS, SEPARATE_KEY
from runs.serving import certificates, node_troubles
from runs.serving.transport import made_once
from trainyard.contract.limits import CONTACT_LOST_S
from trainyard.contract.seals import PREFIX

DROPPED_KEY = f"{PREFIX}:control:dropped"
TICK_LIMIT_S = 15.0
MIN_FREE_BYTES = 16 * 1024 * 1024
KNOWN_FOR_S = 3.0  # pages ask at every request: the answer is kept for so long
TIMEOUT_S = 1.0  # a Valkey that hangs must not hold up a page for longer

DISK_FULL = (
    "The server's disk is full: nothing new is stored or started until there is room. "
    "Training goes on, and the nodes keep what they have not sent."
)
VALKEY_AWAY = "Valkey does not answer: nothing new is started or shown until it does. Training goes on."
CONTROL_DOWN = "Control has not worked{}: nothing new is started, and what pages say of runs and nodes may be old."
INGEST_STILL = "Ingest is not running: new points and log lines wait on the nodes. None is lost."


@dataclass(frozen=True)
class ServerState:
    """``control_tick_age_s`` is None where control has never ticked, or Valkey does not say."""

    database: bool
    valkey: bool
    ingest: bool
    control_tick_age_s: float | None
    free_bytes: int
    separate_nodes: bool = True  # each node has a user of its own in Valkey
    dropped_messages: int = 0  # in control's queue, which the server had not sealed
    refused: str = ""  # what of nodes was, lately
    certificate: str = ""  # what is wrong with it, or will be soon

    @property
    def control(self) -> bool:
        return self.control_tick_age_s is not None and self.control_tick_age_s <= TICK_LIMIT_S

    @property
    def disk(self) -> bool:
        return self.free_bytes >= MIN_FREE_BYTES

    @property
    def is_ready(self) -> bool:
        return self.database and self.valkey and self.control and self.ingest and self.disk

    @property
    def sentences(self) -> list[str]:
        """Sentences for people, the cause first. Consequences of a cause are left out."""
        certificate = [self.certificate] if self.certificate else []
        if not self.disk:
            return [DISK_FULL, *certificate]
        if not self.valkey:
            return [VALKEY_AWAY, *certificate]
        since = "" if self.control_tick_age_s is None else f" for {self.control_tick_age_s:,.0f} s"
        found = [] if self.control else [CONTROL_DOWN.format(since)]
        refused = [self.refused] if self.refused else []
        no_users = [] if self.separate_nodes or settings.NODES_SHARE_VALKEY_USER else [NO_USERS]
        return [*found, *([] if self.ingest else [INGEST_STILL]), *no_users, *refused, *certificate]


def look(*, asks_database: bool = True) -> ServerState:
    """Ask everything now. Who has just used the database need not ask it again."""
    valkey, tick_age_s, ingest, separate, dropped, refused = _ask_valkey()
    return ServerState(
        database=not asks_database or _database_answers(),
        valkey=valkey,
        ingest=ingest,
        control_tick_age_s=tick_age_s,
        free_bytes=shutil.disk_usage(settings.HOME).free,
        separate_nodes=separate,
        dropped_messages=dropped,
        refused=refused,
        certificate=certificates.warning(),
    )


def count_dropped() -> None:
    """Count a message that control had not sealed. Raises RedisError where Valkey is away."""
    _client().incr(DROPPED_KEY)


def known() -> ServerState:
    """Return the state for pages, at most KNOWN_FOR_S old. A page that is drawn has its database."""
    global _known
    now = time.monotonic()
    if _known is None or now - _known[0] > KNOWN_FOR_S:
        _known = now, look(asks_database=False)
    return _known[1]


_known: tuple[float, ServerState] | None = None


def control_silence_s() -> float:
    """Return for how long control has not worked, in seconds; 0 where it works, or where nobody can tell.

    Control alone writes down when a node was last in contact, so these times stand still while it is away.
    """
    age_s = known().control_tick_age_s or 0.0
    return age_s if age_s > CONTACT_LOST_S else 0.0


def ingest_is_away() -> bool:
    """Return whether a Valkey that answers says that no ingest works on some shard."""
    state = known()
    return state.valkey and not state.ingest and state.control_tick_age_s is not None


def contact_time(now: datetime) -> datetime:
    """Return the moment up to which the database knows whether nodes are in contact: now, or when control stopped."""
    return now - timedelta(seconds=control_silence_s())


def _database_answers() -> bool:
    try:
        for alias in connections:
            with connections[alias].cursor() as cursor:
                cursor.execute("SELECT 1")
    except DatabaseError:
        return False
    return True


def _ask_valkey() -> tuple[bool, float | None, bool, bool, int, str]:
    """Return whether it answers, the age of control's last tick, whether each shard has an ingest and each node a
    user, how many messages were dropped, and what of nodes was refused."""
    shards = range(settings.INGEST_SHARDS)
    try:
        keys = [TICK_KEY, SEPARATE_KEY, DROPPED_KEY, *map(lock_key, shards)]
        last, separate, dropped, *holders = cast("list[bytes | None]", _client().mget(keys))
        refused = node_troubles.recently(_client())
    except (redis.RedisError, OSError):
        return False, None, False, True, 0, ""
    age_s = None if last is None else round(max(0.0, time.time() - float(last)), 1)
    return True, age_s, all(holder is not None for holder in holders), separate != b"0", int(dropped or 0), refused


@made_once
def _client() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S)


def spare_sentence(node: Node) -> str:
    """Say for how many runs the node is ready; empty where it prepares for none."""
    if not node.standby:
        return ""
    ready, number = sum(not why for why in node.standby.values()), len(node.standby)
    runs = f"{number:,} run{'s' if number > 1 else ''}"
    if ready == number:
        return f"A spare: it is ready to take over {runs} of this cluster at once."
    why = next(why for why in node.standby.values() if why)
    return f"A spare: it is ready to take over {ready:,} of {runs} of this cluster; for the others, {why.rstrip('.')}."


def num_ready(nodes: Iterable[Node]) -> int:
    """Return how many spares have prepared everything."""
    return sum(bool(node.standby) and not any(node.standby.values()) for node in nodes)
