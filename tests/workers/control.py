"""A server's side of one node, small enough to hold in the hand: down documents out, reports and frames in."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis
from celery import Celery

from tests.frames import frames
from trainyard.contract.base import JsonObject, to_builtins
from trainyard.contract.locks import lock
from trainyard.contract.orders import Locked
from trainyard.contract.seals import (
    ATTACH,
    EPOCH_KEY,
    INSPECT,
    NUDGE,
    check_mac,
    command_scope,
    down_key,
    frames_scope,
    new_key,
    node_queue,
    node_scope,
    report_key,
    report_scope,
    seal,
    stream_key,
    unseal,
    up_key,
)
from trainyard.contract.statuses import OVER
from trainyard.spooling.frames import Frame
from workers.attempt.folder import AttemptFolder
from workers.sandbox.namespaces import inside_pid
from workers.transport.commands import make_app
from workers.transport.control_socket import socket_path
from workers.transport.node_config import NodeConfig, make_home, node_home, store_config

LIMIT_S = 120.0
LOCKED: Any = {INSPECT: "question", ATTACH: "session"}


def until(what: Callable[[], Any], limit_s: float = LIMIT_S, about: Callable[[], object] = str) -> Any:
    """Return the first true answer. ``about``: what a failure shows besides."""
    deadline = time.monotonic() + limit_s
    while not (answer := what()):
        assert time.monotonic() < deadline, f"{what} stayed {answer!r} for {limit_s} s; {about()!r}"
        time.sleep(0.02)
    return answer


def outside_pid(inside: int, rank: int) -> int:
    """Return the pid that we see of a process which the rank, whose pid we know, sees as ``inside``."""
    namespace = Path(f"/proc/{rank}/ns/pid").readlink()
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or belongs to somebody else
            if (path / "ns" / "pid").readlink() == namespace and inside_pid(int(path.name)) == inside:
                return int(path.name)
    raise AssertionError(f"rank {rank} sees no process {inside}")


class ControlledNode:
    """A real node worker process, and what the server would do with it."""

    def __init__(
        self,
        home: Path,
        redis_url: str,
        *,
        name: str = "one",
        server: str = "http://127.0.0.1:9",
        python: Path = Path(sys.executable),
    ) -> None:
        self.id = f"{name}-{secrets.token_hex(4)}"
        self.name = name
        self.key = new_key()
        self.url = redis_url
        self.base = home
        self.python = python
        self.home = node_home(home, name)
        make_home(self.home)
        store_config(self.home, NodeConfig(server, self.id, name, self.key, redis_url, "local"))
        self.valkey = redis.Redis.from_url(redis_url)
        self.app: Celery = make_app(redis_url, name)
        self.attempts: dict[str, JsonObject] = {}
        self.process: subprocess.Popen[bytes] | None = None
        self.lifeline: int | None = None

    def start(self, *, with_lifeline: bool = False, **settings: str) -> None:
        command = [str(self.python), "-m", "workers.node", "--name", self.name, "--home", str(self.base)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TRAINYARD_")}
        environment |= settings
        passed: list[int] = []
        if with_lifeline:
            read, self.lifeline = os.pipe()
            environment["TRAINYARD_LIFELINE"] = str(read)
            passed = [read]
        with (self.base / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--address", "127.0.0.1"], env=environment, stdout=log, stderr=log, pass_fds=passed
            )
        for read in passed:
            os.close(read)

    def cut_lifeline(self) -> None:
        assert self.lifeline is not None
        os.close(self.lifeline)
        self.lifeline = None

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Leave nothing behind: the node worker, then the supervisors, whose ranks end with them."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=20)
        if self.lifeline is not None:
            self.cut_lifeline()
        for path in (self.home / "attempts").iterdir():
            if (pid := AttemptFolder(path).lock_holder()) is not None:
                os.kill(pid, signal.SIGKILL)
                until(lambda path=path: AttemptFolder(path).lock_holder() is None)  # type: ignore[misc]
            socket_path(path).unlink(missing_ok=True)
        self.app.close()
        self.valkey.close()

    def check_alive(self) -> None:
        """Fail at once for a node worker that an earlier test shared and that has ended since."""
        code = None if self.process is None else self.process.poll()
        assert code is None, f"the node worker ended with {code}; its log's end: {self.log()[-1500:]}"

    def log(self) -> str:
        return (self.base / f"{self.name}.log").read_text()

    def folder(self, attempt: str) -> AttemptFolder:
        return AttemptFolder(self.home / "attempts" / attempt)

    def order(self, script: str | None = None, *, ranks: int = 1, **changes: Any) -> JsonObject:
        """Return an order for a script, whose text travels in the node's cache as a bundle would."""
        attempt = secrets.token_hex(6)
        order: JsonObject = {
            "attempt": attempt,
            "run": f"run-{attempt}",
            "fence": 1,
            "node": self.id,
            "node_name": self.name,
            "node_rank": 0,
            "num_nodes": 1,
            "first_rank": 0,
            "num_ranks": ranks,
            "world_size": ranks,
            "slots": list(range(ranks)),
            "shard": 0,
            "name": "test",
            "spec": {"task": {"script": "train.py", "arguments": [], "environment": {}, "python": None}},
            "accelerator": "cpu",
            "code": None,
            "lease_s": 600.0,
        }
        if script is not None:
            order["code"] = self.store_code(script)
        return {**order, **changes}

    def store_code(self, script: str) -> JsonObject:
        from trainyard.bundle import pack

        source = self.base / f"code-{secrets.token_hex(4)}"
        source.mkdir()
        (source / "train.py").write_text(script)
        data, sha256, _ = pack(source)
        (self.home / "cache" / "bundles" / sha256).write_bytes(data)
        return {"sha256": sha256, "size_bytes": len(data)}

    def say(self, order: JsonObject, /, **entry: Any) -> None:
        """Change what the down document says of the attempt."""
        known = self.attempts.setdefault(
            order["attempt"],
            {"run": order["run"], "fence": order["fence"], "wanted": "prepare", "order": self.locked(order), "go": None,
             "watermarks": {}, "resend": []},
        )  # fmt: skip
        known.update(entry)
        self.tick()

    def forget(self) -> None:
        """Say of what has ended that its run was deleted, and nothing more of what that was said of before.

        A supervisor waits a minute for a server that acknowledges what was sent: it would cost later tests its share.
        """
        ended = {attempt: entry for attempt, entry in self.attempts.items() if self.folder(attempt).is_ended()}
        forgotten = {attempt for attempt, entry in self.attempts.items() if "is_gone" in entry}
        self.attempts = {
            attempt: {**entry, "is_gone": True} for attempt, entry in ended.items() if attempt not in forgotten
        }
        self.tick()

    def locked(self, order: JsonObject) -> Locked:
        return lock(self.key, node_scope("order", self.id), order)

    def tick(self) -> None:
        key = down_key(self.id)
        document = {"at": time.time(), "node": self.id, "epoch": "1", "attempts": self.attempts}
        self.valkey.set(key, seal(self.key, key, document))
        self.valkey.set(EPOCH_KEY, "1", nx=True)

    def send(self, task: str, document: JsonObject) -> None:
        if task in LOCKED:
            document = to_builtins(lock(self.key, node_scope(LOCKED[task], self.id), document))
        sealed = seal(self.key, command_scope(task, self.id), {"at": time.time(), **document})
        self.app.send_task(task, kwargs={"sealed": sealed}, queue=node_queue(self.name))

    def nudge(self, order: JsonObject, /, **entry: Any) -> None:
        """Send the command that says of the attempt what the down document will say."""
        wanted = {"wanted": "prepare", "order": to_builtins(self.locked(order)), **entry}
        attempt = {"run": order["run"], "fence": order["fence"], **wanted}
        self.send(NUDGE, {"attempts": {order["attempt"]: attempt}})

    def launch(self, order: JsonObject, **more: Any) -> JsonObject:
        """Prepare, wait until ready, say go (with ``more`` in it); return the report that says ready."""
        self.nudge(order)
        self.say(order)
        report = self.wait_for(order, "ready")
        go = {"master_addr": report["address"], "master_port": report["port"], **more}
        self.say(order, wanted="run", go=go)
        self.nudge(order, wanted="run", order=None, go=go)
        return report

    def report(self, order: JsonObject) -> JsonObject | None:
        text: Any = self.valkey.get(report_key(self.id, order["attempt"]))
        scope = report_scope(self.id, order["run"], order["fence"])
        return None if text is None else unseal(self.key, scope, text, JsonObject)

    def wait_for(self, order: JsonObject, *phases: str) -> JsonObject:
        """Return the report of the first of these phases; fail at once when the attempt is over in another."""

        def reached() -> JsonObject | None:
            self.tick()
            report = self.report(order)
            if report is None or report["phase"] in phases:
                return report
            assert report["phase"] not in OVER, (
                f"it is over before it is {' or '.join(phases)}: {self._state_of(order)}"
            )
            return None

        report: JsonObject = until(reached, about=lambda: self._state_of(order))
        return report

    def _state_of(self, order: JsonObject) -> str:
        """What a test that waits in vain shows: the report, and the ends of the logs of node and supervisor."""
        own = self.folder(order["attempt"]).logs / "supervisor.log"
        logs = [one.read_text()[-1500:] for one in (self.base / f"{self.name}.log", own) if one.exists()]
        return "\n".join([str(self.report(order)), *logs])

    def up(self) -> JsonObject | None:
        key = up_key(self.id)
        text: Any = self.valkey.get(key)
        return None if text is None else unseal(self.key, key, text, JsonObject)

    def shipped(self, order: JsonObject) -> list[Frame]:
        """Return the frames of the attempt in the stream, each once, with their seals checked."""
        found: dict[tuple[str, int], Frame] = {}
        entries: Any = self.valkey.xrange(stream_key(order["shard"]))
        for _, entry in entries:
            if entry[b"a"].decode() == order["attempt"]:
                scope = frames_scope(self.id, order["run"], order["fence"])
                check_mac(self.key, scope, entry[b"d"], entry[b"m"].decode())
                found |= {(frame.producer, frame.sequence): frame for frame in frames(entry[b"d"])}
        return list(found.values())

    def lines(self, order: JsonObject, stream: str = "stdout") -> list[str]:
        return [
            text
            for frame in self.shipped(order)
            if frame.kind == "logs" and frame.payload["stream"] == stream
            for _, text in frame.payload["lines"]
        ]

    def run(self, order: JsonObject) -> JsonObject:
        """Launch the order; return the last report once the ranks have ended and all their records have arrived."""
        self.launch(order)
        report = self.wait_for(order, "ended")
        self.wait_until_shipped(order)
        return report

    def wait_until_shipped(self, order: JsonObject) -> None:
        """Return when the stream has every frame that the final report promises."""

        def has_all() -> bool:
            report = self.report(order)
            seen = {(frame.producer, frame.sequence) for frame in self.shipped(order)}
            return report is not None and all((name, last) in seen for name, last in report["producers"].items())

        until(has_all)
