"""Lock by which one of several ingest processes works on a shard. It only spares work: commit() is right without it.

The lock runs out after LEASE_S, and its holder renews it. Its value names the process and machine that hold it, so
that a successor on the same machine need not wait: it sees that the holder is dead, and takes over. Every step is one
script in Valkey, which compares and sets.
"""

import os
import secrets
from pathlib import Path

import structlog

from runs.serving.transport import redis
from trainyard.contract.seals import PREFIX

log = structlog.get_logger(__name__)

LEASE_S = 3.0  # as long as a shard waits after its ingest was lost on another machine; renewed every second

# Returns who holds it then.
HOLD = """
local holder = redis.call('GET', KEYS[1])
if not holder or holder == ARGV[1] or holder == ARGV[3] then
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    return ARGV[1]
end
return holder
"""
RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


def lock_key(shard: int) -> str:
    """Return the key that exists while an ingest works on the shard."""
    return f"{PREFIX}:ingest:{shard}"


class ShardLock:
    def __init__(self, shard: int) -> None:
        self._key = lock_key(shard)
        self._value = f"{secrets.token_hex(8)} {whoami()}"
        self.is_held = False

    def hold(self) -> bool:
        """Take the lock or keep it for another LEASE_S; return whether it is ours."""
        holder = self._ask(self._value)
        if holder != self._value and is_dead(holder):
            log.info("ingest.takes_over", key=self._key, holder=holder)
            holder = self._ask(holder)
        self.is_held = holder == self._value
        return self.is_held

    def _ask(self, instead_of: str) -> str:
        milliseconds = int(LEASE_S * 1000)
        answer: bytes = redis().eval(HOLD, 1, self._key, self._value, milliseconds, instead_of)
        return answer.decode("utf-8", "replace")

    def release(self) -> None:
        if self.is_held:
            redis().eval(RELEASE, 1, self._key, self._value)
        self.is_held = False


def whoami() -> str:
    """Return the machine (this start of it, and of what it is, which processes are seen), the process and its start."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        place = f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
        return f"{place} {os.getpid()} {_started(os.getpid())}"
    except OSError:  # no Linux: a successor cannot see whether we live, and waits
        return ""


def is_dead(holder: str) -> bool:
    """Return whether the holder was a process of this machine that is no more. Unknown means no."""
    parts = holder.split()
    here = whoami().split()
    if len(parts) != 4 or not here or parts[1] != here[0] or not parts[2].isdigit():
        return False
    try:
        return _started(int(parts[2])) != parts[3]
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _started(pid: int) -> str:
    """Return when the process began, in ticks since the machine did; "" of one that has ended and is not yet reaped.
    Raises FileNotFoundError."""
    # The name, in brackets, may hold anything.
    state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return "" if state in "ZX" else rest[18]
