"""The node worker: takes orders, gets supervisors for them, and says every second how the machine and they are."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import redis
import structlog

from trainyard import __version__
from workers.contract import BadSeal, Document, down_key, question_scope, unlock, unseal, up_key
from workers.contract import seal as sealed_document
from workers.machine.health import HealthReader
from workers.machine.inventory import take_inventory
from workers.node.attempts import Attempts
from workers.node.checkpoints import sweep
from workers.node.config import NodeConfig, checkpoints_root, store_config
from workers.node.finished import Afterlife
from workers.node.health_sender import HealthSender
from workers.node.inspection.inspector import Inspector
from workers.node.server_client import ServerClient
from workers.node.server_clock import ServerClock
from workers.node.zygote_keeper import ZygoteKeeper
from workers.sandbox.node import Shelter
from workers.supervisor.contact import connect

log = structlog.get_logger(__name__)

UP_EVERY_S = 1.0
DOWN_EVERY_S = 1.0
HEALTH_EVERY_S = 2.0
WATCH_EVERY_S = 0.25
SWEEP_EVERY_S = 60.0
LONGEST_PAUSE_S = 5.0


class NodeWorker:
    """Everything of a node but the main thread, which takes commands (``prepare``, ``go``, ``nudge``) from Celery."""

    def __init__(
        self, config: NodeConfig, home: Path, address: str, shelter: Shelter, slots: int | None = None
    ) -> None:
        self._config = config
        self._address = address
        self._client = connect(config.redis_url)
        self._inventory = {**take_inventory(home, slots), "isolation": shelter.level.value}
        self._health = HealthReader(home)
        self._health_sender = HealthSender(self._client, config)
        self._latest_health: Document = self._health.sample()
        lifeline = int(os.environ.get("TRAINYARD_LIFELINE") or -1)
        self._zygote = ZygoteKeeper(lifeline)
        self.clock = ServerClock()
        server = ServerClient(config, lambda url: store_config(home, replace(config, server=url)), self.clock)
        self._server = server
        self._sweep = partial(sweep, checkpoints_root(home), server)
        self._attempts = Attempts(
            config,
            home,
            address=address,
            zygote=self._zygote,
            source=server,
            afterlife=Afterlife(config, self._client, server),
            shelter=shelter,
        )
        self._inspector = Inspector(home, server, shelter)
        self._over = threading.Event()
        self._nudged = threading.Event()
        self._down_at: float | None = None

    def start(self) -> None:
        self._attempts.adopt()
        threading.Thread(target=self._zygote.keep, name="zygote", daemon=True).start()
        self._loop("health", HEALTH_EVERY_S, self._sample_health)
        self._loop("up", UP_EVERY_S, self._send_up)
        self._loop("down", DOWN_EVERY_S, self._read_down, self._nudged)
        self._loop("watch", WATCH_EVERY_S, self._attempts.watch)
        self._loop("sweep", SWEEP_EVERY_S, self._sweep)

    def stop(self) -> None:
        self._over.set()
        self._nudged.set()
        self._inspector.stop()
        self._zygote.stop()

    def wait_for_supervisors(self, limit_s: float) -> None:
        """Return when no supervisor lives here any more, or after ``limit_s``."""
        deadline = time.monotonic() + limit_s
        while self._attempts.num_living() and time.monotonic() < deadline:
            time.sleep(0.05)

    # Commands: hints that control repeats, most of them in the down document.

    def prepare(self, order: Document) -> None:
        self._attempts.prepare(order)

    def go(self, command: Document) -> None:
        self._attempts.go(command["attempt"], command["fence"], command["go"])

    def nudge(self) -> None:
        self._nudged.set()

    def inspect(self, question: Document) -> None:
        self._inspector.take(unlock(self._config.key, question_scope(self._config.id), question))

    def _sample_health(self) -> None:
        self._latest_health = self._health.sample()
        self._health_sender.send(self._latest_health)

    def _send_up(self) -> None:
        key = up_key(self._config.id)
        document = {
            "at": time.time(),
            "node": self._config.id,
            "name": self._config.name,
            "version": __version__,
            "address": self._address,
            "pid": os.getpid(),
            "inventory": self._inventory,
            "health": self._latest_health,
            "attempts": self._attempts.phases(),
            "troubles": self._attempts.troubles(),
            "inspecting": self._inspector.questions(),
        }
        self._client.set(key, sealed_document(self._config.key, key, document))

    def _read_down(self) -> None:
        key = down_key(self._config.id)
        text: Any = self._client.get(key)
        if text is None:
            return
        try:
            document = unseal(self._config.key, key, text)
        except (BadSeal, ValueError) as error:
            log.warning("down.refused", error=str(error))
            return
        # The same document twice says nothing new: it may be the last word of a server that is gone.
        if document.get("at") != self._down_at:
            if self._down_at is not None:  # the first that we read may have lain there for long
                self.clock.set(document.get("at"))
            self._down_at = document.get("at")
            self._server.offer(document.get("server"))
            self._attempts.reconcile(document.get("attempts") or {})

    def _loop(
        self, name: str, every_s: float, step: Callable[[], object], sooner: threading.Event | None = None
    ) -> None:
        """Run ``step`` in a thread of its own, every so often and when ``sooner`` is set; trouble makes it rarer."""
        wait_for = sooner or self._over

        def run() -> None:
            pause_s = every_s
            while not self._over.is_set():
                if sooner is not None:
                    sooner.clear()
                try:
                    step()
                    if pause_s != every_s:
                        log.info("node.recovered", loop=name)
                    pause_s = every_s
                except (redis.RedisError, httpx.HTTPError, OSError) as error:
                    if pause_s == every_s:  # once per trouble, not once per try
                        log.warning("node.trouble", loop=name, error=str(error))
                    pause_s = max(every_s, min(2 * pause_s, LONGEST_PAUSE_S))
                except Exception:  # a bug in one loop must not silence the node for ever; the log says where it is
                    log.exception("node.bug", loop=name)
                    pause_s = LONGEST_PAUSE_S
                wait_for.wait(pause_s)

        threading.Thread(target=run, name=name, daemon=True).start()
