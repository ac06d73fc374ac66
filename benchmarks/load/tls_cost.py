"""`python -m benchmarks.load.tls_cost`: what TLS costs a node on its way to the embedded Valkey. Paired: each round
sends the same by the socket and through the gate, in turn; prints the median ratio and its range."""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import redis

from benchmarks.stack import valkey
from dashboard.home import socket_path, tls_folder
from dashboard.tls import folder
from dashboard.up.parent_death import tethered
from trainyard.rest.trust import AUTHORITIES

Measure = Callable[[redis.Redis], float]
ROUNDS = 6
BATCH_BYTES = 256 * 1024  # of a supervisor
NUM_BATCHES = 40
NUM_PINGS = 200
NUM_CONNECTIONS = 10


@contextmanager
def gate(home: Path) -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        descriptor = listener.fileno()
        command = tethered([sys.executable, "-m", "dashboard.up.valkey_gate", str(descriptor)])
        environment = {**os.environ, "TRAINYARD_HOME": str(home)}
        process = subprocess.Popen(command, pass_fds=(descriptor,), env=environment)
        try:
            yield listener.getsockname()[1]
        finally:
            process.terminate()
            process.wait(10)


def send_batches(client: redis.Redis) -> float:
    """Return megabytes a second."""
    data = os.urandom(BATCH_BYTES)
    began = time.perf_counter()
    for _ in range(NUM_BATCHES):
        client.xadd("frames", {"d": data}, maxlen=100, approximate=False)
    return NUM_BATCHES * BATCH_BYTES / (time.perf_counter() - began) / 1e6


def ping(client: redis.Redis) -> float:
    """Return the median in milliseconds."""
    times = []
    for _ in range(NUM_PINGS):
        began = time.perf_counter()
        client.ping()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000


def connect(client: redis.Redis) -> float:
    """Return the median in milliseconds of a new connection and its first answer."""
    times = []
    for _ in range(NUM_CONNECTIONS):
        client.connection_pool.disconnect()
        began = time.perf_counter()
        client.ping()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000


def compare(name: str, unit: str, measure: Measure, plain: redis.Redis, tls: redis.Redis) -> None:
    pairs = []
    for number in range(ROUNDS):  # each goes first as often as the other
        first, second = (plain, tls) if number % 2 else (tls, plain)
        one, other = measure(first), measure(second)
        pairs.append((one, other) if number % 2 else (other, one))
    ratios = [with_tls / without for without, with_tls in pairs]
    found = {
        "what": name,
        "unit": unit,
        "socket": round(statistics.median(one for one, _ in pairs), 3),
        "tls": round(statistics.median(one for _, one in pairs), 3),
        "ratio": round(statistics.median(ratios), 2),
        "range": [round(min(ratios), 2), round(max(ratios), 2)],
        "rounds": ROUNDS,
    }
    print(json.dumps(found), flush=True)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="ty-tls-") as name:
        home = Path(name)
        folder.begin(tls_folder(home), ["127.0.0.1"], datetime.now(UTC))
        with valkey(home / "valkey") as plain, gate(home) as port:
            assert socket_path(home) == home / "valkey" / "valkey.sock", "the gate looks there"
            authorities = tls_folder(home) / AUTHORITIES
            with redis.Redis("127.0.0.1", port, ssl=True, ssl_ca_certs=str(authorities)) as tls:
                wait_for(tls)
                compare("batches of 256 KB", "MB/s", send_batches, plain, tls)
                compare("a command", "ms", ping, plain, tls)
                compare("a new connection", "ms", connect, plain, tls)
    return 0


def wait_for(client: redis.Redis) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            client.ping()
            return
        except redis.ConnectionError:
            assert time.monotonic() < deadline, "the gate does not answer"
            time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
