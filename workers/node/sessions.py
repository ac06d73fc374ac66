"""Passes the wish for a session on to the supervisor of its attempt, or reports why there is none."""

from __future__ import annotations

from collections.abc import Callable

import redis
import structlog

from trainyard.contract.base import encode
from trainyard.contract.keys import session_key
from trainyard.contract.sessions.documents import FrameKind, SessionEnd, SessionOrder
from trainyard.contract.sessions.frames import Frame, FrameLock
from workers.attempt.folder import AttemptFolder
from workers.transport.control_socket import Request, send_request, socket_path
from workers.transport.node_config import NodeConfig

log = structlog.get_logger(__name__)


class SessionStarter:
    def __init__(
        self, config: NodeConfig, client: redis.Redis, folder_of: Callable[[str], AttemptFolder | None]
    ) -> None:
        self._config = config
        self._client = client
        self._folder_of = folder_of

    def start(self, order: SessionOrder) -> None:
        if problem := self._problem_of(order):
            log.info("session.refused", session=order.session, attempt=order.attempt, problem=problem)
            self._refuse(order, problem)

    def _problem_of(self, order: SessionOrder) -> str:
        """Have the supervisor start the session; return why it does not, empty where it does."""
        folder = self._folder_of(order.attempt)
        known = folder.order() if folder is not None else None
        if folder is None or known is None or (known.run, known.fence) != (order.run, order.fence):
            return f"Node {self._config.name} has no such attempt."
        answer = send_request(socket_path(folder.path), Request(do="attach", fence=order.fence, session=order))
        if answer is None:
            return f"The supervisor of the attempt on node {self._config.name} does not answer."
        return answer.error

    def _refuse(self, order: SessionOrder, problem: str) -> None:
        end = SessionEnd(code="refused", sentence=problem)
        frame = Frame(0, 1, FrameKind.ENDED, encode(end).encode())
        data = FrameLock(self._config.key, order.session, "up").lock(frame)
        self._client.xadd(session_key(self._config.id, order.session, "up"), {"d": data}, id="1-0", nomkstream=True)
