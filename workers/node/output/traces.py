"""Traces of steps go to the server as soon as they are whole: people look at them while the run goes on."""

from __future__ import annotations

import httpx
import structlog

from trainyard.contract.orders import Order
from trainyard.spooling.held_folder import HeldFolder
from workers.attempt.folder import TRACES, AttemptFolder
from workers.node.output.sending import is_refusal
from workers.node.server_client import ServerClient, problem_of

log = structlog.get_logger(__name__)


def send_traces(order: Order, folder: AttemptFolder, server: ServerClient) -> None:
    """Send what is new, from any node of the attempt. Raises httpx.HTTPError to be tried again."""
    for one in folder.unsent_traces():
        name = f"{TRACES}/{one}"
        try:
            with HeldFolder.open(folder.output) as output, output.open_file(name) as file:
                server.put_file(order.run, order.fence, name, file)
        except httpx.HTTPStatusError as error:
            if not is_refusal(error):
                raise
            log.warning("trace.refused", run=order.run, file=name, why=problem_of(error.response))
        mark = folder.sent_mark(one)
        mark.parent.mkdir(mode=0o700, exist_ok=True)
        mark.touch()
