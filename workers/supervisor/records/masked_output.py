"""Output of ranks with secrets: it comes by pipes, and reaches the disk only once the secrets in it are masked.

Ranks without secrets write to files themselves. These print only while the supervisor lives; they end with it anyway.
"""

import os
import selectors
import threading
import time

import structlog

from trainyard.contract.calls import GivenSecret, GivenSecrets, secrets_scope
from trainyard.contract.locks import unlock
from trainyard.contract.orders import Locked, Order
from workers.attempt.folder import AttemptFolder
from workers.secrets import Masker, patterns_of
from workers.transport.node_config import NodeConfig

log = structlog.get_logger(__name__)

READ_BYTES = 64 * 1024
WAIT_S = 0.5
DRAIN_S = 2.0  # for what the last processes of a rank still print


def opened_secrets(locked: Locked | None, config: NodeConfig, order: Order) -> list[GivenSecret]:
    """Return the attempt's secrets. Raises BadMessage for what was not locked for it and this node."""
    if locked is None:
        return []
    return unlock(config.key, secrets_scope(config.id, order.attempt), locked, GivenSecrets).secrets


class MaskedOutput(threading.Thread):
    """Reads the pipes of all ranks here and writes the files that they would have written."""

    def __init__(
        self, folder: AttemptFolder, first_rank: int, pipes: list[tuple[int, int]], secrets: list[GivenSecret]
    ):
        super().__init__(name="masked-output", daemon=True)
        patterns = patterns_of(one.value for one in secrets)
        self._folder = folder
        self._selector = selectors.DefaultSelector()
        self._maskers: dict[int, tuple[Masker, int, str]] = {}
        self._until = float("inf")
        self._num_lost = 0
        for number, pair in enumerate(pipes):
            for descriptor, stream in zip(pair, ("stdout", "stderr"), strict=True):
                os.set_blocking(descriptor, False)
                self._maskers[descriptor] = Masker(patterns), first_rank + number, stream
                self._selector.register(descriptor, selectors.EVENT_READ)

    def run(self) -> None:
        while self._maskers and time.monotonic() < self._until:
            for key, _ in self._selector.select(WAIT_S):
                self._read(key.fd)
        for descriptor in list(self._maskers):
            self._close(descriptor)

    def finish(self) -> None:
        """Take in what the ranks printed last, and end."""
        if self.ident is not None:
            self._until = time.monotonic() + DRAIN_S
            self.join(DRAIN_S + 2 * WAIT_S)

    def _read(self, descriptor: int) -> None:
        try:
            data = os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._close(descriptor)
            return
        masker, rank, stream = self._maskers[descriptor]
        self._write(rank, stream, masker.mask(data))

    def _close(self, descriptor: int) -> None:
        masker, rank, stream = self._maskers.pop(descriptor)
        self._selector.unregister(descriptor)
        os.close(descriptor)
        self._write(rank, stream, masker.flush())

    def _write(self, rank: int, stream: str, data: bytes) -> None:
        """Append to the rank's file. On a full disk the ranks go on, and what they print is lost."""
        if not data:
            return
        try:
            with self._folder.append(rank, stream) as file:
                while data:
                    data = data[file.write(data) :]
        except OSError as error:
            if not self._num_lost:
                log.warning("output.lost", rank=rank, stream=stream, error=str(error))
            self._num_lost += len(data)
