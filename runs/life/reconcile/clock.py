"""The tick, every second, in a thread of control's own: what recovers lost messages must not be a message itself.
Hints only bring the next look forward."""

import threading
import time
from datetime import datetime
from typing import Any

import structlog
from redis.exceptions import RedisError

from runs.engines import control_hints
from runs.life.reconcile.loop import tick
from runs.placing.admission import write_notices
from runs.records.time_use.sums import record_ended
from runs.serving.clock import Clock
from runs.serving.transport import redis
from trainyard.contract.seals import CHANGED_CHANNEL

EVERY_S = 1.0
TIMES_EVERY_S = 10.0


class Ticks:
    def __init__(self) -> None:
        self._times_due_at = 0.0  # by the monotonic clock

    def round(self, now: datetime) -> None:
        """Tick. Now and then, since nobody waits for them, write the time of ended runs and notices of limits."""
        if tick(now) and time.monotonic() >= self._times_due_at:
            self._times_due_at = time.monotonic() + TIMES_EVERY_S
            record_ended(now)
            write_notices(now)


def tick_clock() -> Clock:
    return Clock("ticks", Ticks().round, every_s=EVERY_S)  # a tick has a lock, which tasks that reconcile need not


# Hints from supervisors with a new report, so that the next step does not wait for the tick.

log = structlog.get_logger(__name__)

LISTEN_S = 0.5
COLLECT_S = 0.01  # the nodes of a gang report at almost the same moment: one look is enough
AWAY_S = 1.0
MAX_ID = 12


class Hints(threading.Thread):
    """Listens, and has the run of each hint looked at by a task. Without Valkey it waits: then nobody hints either."""

    def __init__(self) -> None:
        super().__init__(name="hints", daemon=True)
        self._over = threading.Event()

    def stop(self) -> None:
        """Begin to stop. Nobody need wait for the thread: it holds nothing."""
        self._over.set()

    def run(self) -> None:
        while not self._over.is_set():
            try:
                self._listen()
            except (RedisError, OSError) as error:
                log.warning("hints.away", error=str(error))
                self._over.wait(AWAY_S)
            except Exception:  # this thread is the only one that listens: whatever it met, it goes on
                log.exception("hints.failed")
                self._over.wait(AWAY_S)

    def _listen(self) -> None:
        client: Any = redis()  # its pubsub has no types
        with client.pubsub(ignore_subscribe_messages=True) as channel:
            channel.subscribe(CHANGED_CHANNEL)
            while not self._over.is_set():
                if (message := channel.get_message(timeout=LISTEN_S)) is None:
                    continue
                runs = {_run_of(message["data"])}
                while (more := channel.get_message(timeout=COLLECT_S)) is not None and len(runs) < 100:
                    runs.add(_run_of(more["data"]))
                for run in runs - {""}:
                    control_hints.request_reconcile(run)


def _run_of(run: object) -> str:
    return run.decode("ascii", "replace") if isinstance(run, bytes) and len(run) <= MAX_ID else ""
