"""The server's Valkey, and the desired state that it has for a node: for its worker and its supervisors."""

import redis
import structlog
from redis.backoff import NoBackoff
from redis.retry import Retry

from trainyard.contract.base import BadMessage, JsonObject
from trainyard.contract.desired import Desired, lenient_desired
from trainyard.contract.seals import down_key, unseal

log = structlog.get_logger(__name__)


class DesiredReader:
    """Returns each document once. What is refused is logged once, with the field."""

    def __init__(self, key: str, node_id: str) -> None:
        self._key, self._node_id = key, node_id
        self._at: float | None = None  # of the last one
        self._problems: list[str] = []

    def read(self, text: bytes) -> Desired | None:
        """Return the desired state, None where it is refused or was read before. A clock may be wrong, ours or the
        server's: a document counts when its time is another than before."""
        try:
            desired, left_out = lenient_desired(unseal(self._key, down_key(self._node_id), text, JsonObject))
        except BadMessage as error:
            self._report([str(error)])
            return None
        self._report([f"{attempt}: {problem}" for attempt, problem in left_out.items()])
        if desired.at == self._at:
            return None
        self._at = desired.at
        return desired

    def _report(self, problems: list[str]) -> None:
        if problems != self._problems:  # the document is read every second
            for problem in problems:
                log.warning("desired.refused", error=problem)
        self._problems = problems


def connect(url: str) -> redis.Redis:
    """Return a client that gives up quickly: its users try again a second later anyway."""
    return redis.Redis.from_url(
        url, socket_timeout=2.0, socket_connect_timeout=1.0, health_check_interval=30, retry=Retry(NoBackoff(), 0)
    )
