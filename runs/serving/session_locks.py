"""Controls with different Valkeys would both place the runs of one PostgreSQL. So each has a lock with the number of
its Valkey, and works only where nobody had one with another number before. Such a lock ends with its session."""

import sys
import threading

from django.db import DatabaseError, connections

from runs.serving.clock import Clock
from runs.serving.transport import redis
from trainyard import lifeline

# PostgreSQL asks a silent machine, and ends the session after 11 s without an answer. Linux asks after two hours.
KEEPALIVE = """set_config('tcp_keepalives_idle', '5', false), set_config('tcp_keepalives_interval', '2', false),
set_config('tcp_keepalives_count', '3', false)"""
KIND = 0x56616C  # the first number of these locks
HELD = f"""FROM pg_locks WHERE locktype = 'advisory' AND classid = {KIND}
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
TAKE = f"SELECT pg_advisory_lock_shared({KIND}, %s), {KEEPALIVE}"
OTHERS = f"SELECT count(*) {HELD} AND pid NOT IN (SELECT pid {HELD} AND objid = %s)"
REFUSAL = """Another control works on this database with another Valkey, and both would place its runs: give all \
processes of the server one REDIS_URL, or stop the other server."""


def keep_other_valkeys_away() -> None:
    """Return once we have the lock, which a thread keeps. It ends this process where another Valkey was first.

    A Valkey has another number when it starts again: whoever has that one too is with us."""
    session, is_ours = connections.create_connection("default"), threading.Event()
    session.inc_thread_sharing()

    def hold(_: object) -> None:
        number = int(redis().info("server")["run_id"][:7], 16)
        try:
            with session.cursor() as cursor:
                cursor.execute(TAKE, [number])
                cursor.execute(OTHERS, [number])
                has_others = cursor.fetchone()[0] > 0
        except DatabaseError:
            session.close()  # with the lock
            is_ours.clear()
            raise
        if has_others and not is_ours.is_set():
            print(REFUSAL, file=sys.stderr)
            lifeline.leave(1)
        is_ours.set()

    if session.vendor == "postgresql":
        Clock("one-valkey", hold, every_s=2.0).start()
        is_ours.wait()
