"""A thread of control that asks the systems of engines which bring nodes, beside the tick.

A system may answer slowly or not at all: each cluster has a thread of its own for its round, and a lock in Valkey keeps
two controls from submitting the same job.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import structlog
from django.db import DatabaseError, connections
from redis.exceptions import LockError, RedisError

from runs.engines import ENGINES
from runs.engines.allocating import AllocatingEngine, changed
from runs.engines.allocations import run_round
from runs.models import Cluster
from runs.serving.clock import Clock, only_one
from trainyard.contract.keys import PREFIX

log = structlog.get_logger(__name__)

EVERY_S = 2.0
OTHERS_EVERY_S = 60.0  # how often a system is asked where nothing is open
LOCK_S = 25  # longer than one call to a system takes; it is taken anew before each
MAX_AT_ONCE = 8


class AllocationClock(Clock):
    def __init__(self) -> None:
        super().__init__("allocations", self._begin_rounds, every_s=EVERY_S, wake=changed)
        self._busy: set[str] = set()
        self._others_due: dict[str, float] = {}
        self._pool = ThreadPoolExecutor(max_workers=MAX_AT_ONCE, thread_name_prefix="allocations")

    def stop(self) -> None:
        super().stop()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _begin_rounds(self, _now: datetime) -> None:
        engines = {name: engine for name, engine in ENGINES.items() if isinstance(engine, AllocatingEngine)}
        for cluster in Cluster.objects.filter(engine__in=engines):
            if cluster.pk not in self._busy:
                self._busy.add(cluster.pk)
                self._pool.submit(self._round, cluster, engines[cluster.engine])

    def _round(self, cluster: Cluster, engine: AllocatingEngine) -> None:
        try:
            with only_one(f"{PREFIX}:control:allocations:{cluster.pk}", LOCK_S) as lock:
                if lock is not None:
                    run_round(cluster, engine, lock.reacquire, looks_for_others=self._is_due(cluster.pk))
        except LockError:  # another control has gone on with it
            log.info("allocations.overtaken", cluster=cluster.name)
        except (RedisError, DatabaseError, OSError) as error:
            log.warning("allocations.away", cluster=cluster.name, error=str(error))
        except Exception:  # a bug, or an answer that nobody expected: the next round tries again
            log.exception("allocations.round_failed", cluster=cluster.name)
        finally:
            connections.close_all()
            self._busy.discard(cluster.pk)

    def _is_due(self, cluster: str) -> bool:
        if time.monotonic() < self._others_due.get(cluster, 0.0):
            return False
        self._others_due[cluster] = time.monotonic() + OTHERS_EVERY_S
        return True
