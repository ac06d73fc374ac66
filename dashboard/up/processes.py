"""Processes under one parent: what is started in which order, what is written about it, and how it stops."""

import asyncio
import contextlib
import json
import logging
import os
import re
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, ParamSpec, TypeVar

from dashboard.home import make_private, serves_tls, socket_path, valkey_password
from dashboard.http import hosts
from dashboard.up import children, database, programs
from dashboard.up.checks import CannotStart
from dashboard.up.children import Child, Program
from dashboard.up.output import Console, LogFile
from dashboard.up.valkey import NoValkey, answers, refuse_old_server
from trainyard.spooling.plain_files import write_private

P = ParamSpec("P")
T = TypeVar("T")

READY_S = 90.0
NUM_TRIES = 5  # to start a child, before it is given up
REMOVE_AGAIN_S = 10.0
# Stopping takes ten seconds at most, all together; these are the parts of it, in order.
NODES_S = 4.5
SETTLE_S = 1.2
SITE_S = 2.8
VALKEY_S = 0.6
REVOKE_S = 0.5


class Listeners(NamedTuple):
    """Sockets that we hold while the processes behind them are started again: callers wait in line. ``valkey``: with
    TLS, for nodes on other machines; ``apps``: of runs, for browsers."""

    web: socket.socket
    valkey: socket.socket | None = None
    apps: socket.socket | None = None

    def close(self) -> None:
        for one in self:
            if one is not None:
                one.close()


class Processes:
    """The processes of one home."""

    def __init__(self, home: Path, listeners: Listeners, url: str, num_nodes: int, console: Console) -> None:
        self.home, self.listeners, self.url = home, listeners, url
        self.names = [f"local-{number}" for number in range(1, num_nodes + 1)]
        self.console = console
        self.children: dict[str, Child] = {}
        self.owner: Any = None
        self.started_at = time.time()
        self._strangers: set[int] = set()
        self._removing: asyncio.Task[None] | None = None
        self._database = ThreadPoolExecutor(1, thread_name_prefix="database")

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call what blocks, or touches the database, in the one thread for that."""
        return await asyncio.get_running_loop().run_in_executor(self._database, lambda: function(*args, **kwargs))

    async def start(self) -> None:
        """Start everything, in parallel where one does not need the other. Raises CannotStart."""
        valkey = asyncio.create_task(self._start_valkey())
        try:
            await self.call(database.set_up_django)
            self._keep_own_log()
            await self.call(database.open_database)
            self.owner = await self.call(database.owner)
            await self.call(database.revoke_client, self.home)  # of a start before this one
            await self._write_client()
        finally:
            await valkey
        ingests = [programs.ingest(shard) for shard in range(await self.call(database.num_shards))]
        for program in (programs.control(), *ingests):
            await self._start_child(program)
        from dashboard.frontend.storage import collect  # Django is ready by now

        await self.call(collect)  # the first time takes seconds, and only the web process needs it
        await self._start_child(programs.web(self.listeners.web, self.listeners.apps, is_tls=serves_tls(self.home)))
        await self._start_nodes()
        problem = f"The site does not answer after {READY_S:.0f} s; see {self.home / 'logs' / 'web.log'}."
        is_tls = serves_tls(self.home)
        await self._wait_for(lambda: asyncio.to_thread(_is_healthy, self.listeners.web, is_tls), problem, every_s=0.05)

    async def _write_client(self) -> None:
        """Write the client's settings with our own address: a proxy in front of us would hide whose request it is."""
        is_tls = serves_tls(self.home)  # PUBLIC_URL is what the certificate is for, then, and nothing is in front
        here = self.url if is_tls else hosts.url(os.environ["HOST"], int(os.environ["PORT"]))
        await self.call(database.write_client, self.home, here, self.owner)

    async def renew_client(self) -> None:
        """Write this machine's next token in time, for as long as we run."""
        pause_s = database.RENEW_EVERY_S
        while True:
            await asyncio.sleep(pause_s)
            try:
                await self._write_client()
                pause_s = database.RENEW_EVERY_S
            except Exception as error:  # a full disk, a database that is away: the one before lasts a while
                self.console.say(f"The token in {database.CLIENT} could not be renewed: {error}")
                pause_s = database.RENEW_AGAIN_S

    async def wait_for_nodes(self) -> None:
        """Return when every node is in contact. Raises CannotStart when that takes too long."""
        problem = f"Not every node came into contact within {READY_S:.0f} s; see {self.home / 'logs'}."
        await self._wait_for(lambda: self.call(database.are_in_contact, self.names), problem, every_s=0.1)

    async def stop(self) -> None:
        """End everything: first the nodes, so that their last reports and records still get through."""
        if self._removing is not None:
            self._removing.cancel()
        nodes = [self.children[name] for name in self.names if name in self.children]
        deadline = time.monotonic() + NODES_S
        await asyncio.gather(*(node.stop(NODES_S) for node in nodes))
        while self.reap() and time.monotonic() < deadline:  # their supervisors, which became ours
            await asyncio.sleep(0.05)
        if nodes and "control" in self.children:
            await self._settle()
        last = [name for name in self.children if name in ("valkey", "valkey-tls")]
        site = [name for name in self.children if name not in (*last, *self.names)]
        for names, seconds in ((site, SITE_S), (last, VALKEY_S)):
            await asyncio.gather(*(self.children[name].stop(seconds) for name in names))
        children.end_all()
        if self.owner is not None:
            with contextlib.suppress(Exception):  # a database that is gone now keeps nobody from stopping
                await asyncio.wait_for(self.call(database.revoke_client, self.home), REVOKE_S)
        self._database.shutdown(wait=False, cancel_futures=True)
        (self.home / "processes.json").unlink(missing_ok=True)

    def reap(self) -> int:
        """Take leave of dead orphans and return how many live. One that we see for the first time may be a child
        that is just being started, which its keeper waits for: it is left alone until the next look."""
        strangers = set(children.children()) - {child.pid for child in self.children.values() if child.pid}
        children.reap(strangers & self._strangers)
        self._strangers = strangers
        return len(strangers)

    def kill(self) -> None:
        for child in self.children.values():
            child.kill()
        children.end_all()

    async def _start_valkey(self) -> None:
        unix_socket = socket_path(self.home)
        try:
            if url := os.environ.get("REDIS_URL"):
                return await asyncio.to_thread(refuse_old_server, url)
            await asyncio.to_thread(make_private, unix_socket.parent)
            await self._start_child(programs.valkey(self.home, unix_socket))
        except NoValkey as error:
            raise CannotStart(str(error)) from error
        password = valkey_password(self.home) if serves_tls(self.home) else ""
        problem = f"The embedded Valkey does not answer; see {self.home / 'logs' / 'valkey.log'}."
        await self._wait_for(lambda: asyncio.to_thread(answers, unix_socket, password), problem, every_s=0.01)
        if self.listeners.valkey is not None:
            await self._start_child(programs.valkey_gate(self.listeners.valkey))

    async def _start_nodes(self) -> None:
        for name, share in zip(self.names, shares(len(self.names), usable_cores(), usable_gpus()), strict=True):
            secret = await self.call(database.join_secret, self.home / "nodes" / name, name, self.owner)
            await self._start_child(programs.node(self.home, name, self.url, secret, share))
        self._removing = asyncio.create_task(self._remove_other_nodes())

    async def _remove_other_nodes(self) -> None:
        """Take the nodes of an earlier start off their cluster that are not started now. One that a run still holds is
        tried again until the run has left it."""
        printed = ""
        while True:
            try:
                held = await self.call(database.remove_other_nodes, self.home, self.names, self.owner)
                if not held:
                    return
                words = f"Not started, and removed once no run holds them: {', '.join(held)}"
            except Exception as error:  # a database that is away for a moment
                words = f"Nodes that are not started could not be removed yet: {error}"
            if words != printed:
                self.console.say(words)
            printed = words
            await asyncio.sleep(REMOVE_AGAIN_S)

    async def _start_child(self, program: Program) -> None:
        child = Child(program, self.home / "logs", self.console, self._write_processes)
        self.children[program.name] = child
        await child.start()

    def _refuse_what_dies(self) -> None:
        dying = [(name, child) for name, child in self.children.items() if child.num_early_ends > 1]
        if any(child.num_early_ends >= NUM_TRIES for _, child in dying):
            name, child = dying[0]  # as they were started: others may only follow from it
            words = f"in the end with {child.last_line[:500]!r} ({self.home / 'logs' / f'{name}.log'})."
            raise CannotStart(f"{name} does not start: it ended {child.num_early_ends} times, {words}")

    async def _wait_for(self, is_there: Callable[[], Awaitable[bool]], problem: str, *, every_s: float) -> None:
        """Raises CannotStart with the problem where it takes too long, and where a child ends again and again."""
        deadline = time.monotonic() + READY_S
        while not await is_there():
            self._refuse_what_dies()
            if time.monotonic() > deadline:
                raise CannotStart(problem)
            await asyncio.sleep(every_s)

    async def _settle(self) -> None:
        """Give control the moment that it needs to store the nodes' last reports."""
        deadline = time.monotonic() + SETTLE_S
        with contextlib.suppress(Exception):  # a database that is gone now keeps nobody from stopping
            while await self.call(database.num_live_attempts) and time.monotonic() < deadline:
                await asyncio.sleep(0.1)

    def _keep_own_log(self) -> None:
        """Have what this process logs in a file, as its children's: the terminal is for a person."""
        log = LogFile(self.home / "logs" / "up.log")
        stream: Any = SimpleNamespace(write=lambda text: log.write(text.encode(errors="replace")), flush=lambda: None)
        for handler in logging.getLogger().handlers:
            if isinstance(handler, logging.StreamHandler):
                handler.setStream(stream)

    def _write_processes(self) -> None:
        alive = [("up", os.getpid(), self.started_at)]
        alive += [(name, child.pid, child.started_at) for name, child in self.children.items() if child.pid]
        rows = [{"name": name, "pid": pid, "started_at": round(at, 3)} for name, pid, at in alive]
        try:
            write_private(self.home / "processes.json", json.dumps(rows, indent=1) + "\n")
        except OSError as error:  # a full disk: the list is old then, and the children are kept running all the same
            self.console.say(f"processes.json could not be written: {error}")


def _is_healthy(listener: socket.socket, is_tls: bool) -> bool:
    """Return whether the web process answers a request; the socket itself is always open, since it is ours."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    try:
        with contextlib.ExitStack() as stack:
            connection = stack.enter_context(socket.create_connection((host, port), timeout=2))
            if is_tls:
                connection = stack.enter_context(_unverified().wrap_socket(connection))
            connection.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return b" 200 " in connection.recv(64)
    except OSError:
        return False


def _unverified() -> ssl.SSLContext:
    """Return the TLS context for our own listener. It takes wrong certificates: `trainyard doctor` reports them."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


# Shares of this machine's cores and GPUs, where it has several nodes.


def shares(num_nodes: int, num_cores: int, gpus: list[str]) -> list[dict[str, str]]:
    """Return the environment with each node's share.

    GPUs are dealt evenly; where there are fewer than nodes all nodes are CPU nodes, since two of them must not train
    on one GPU, and a run over both must find two of a kind. One node alone has everything, without variables.
    """
    if num_nodes < 2:
        return [{}] * num_nodes
    each, cores = len(gpus) // num_nodes, max(1, num_cores // num_nodes)
    return [
        {"TRAINYARD_CORES": str(cores), "CUDA_VISIBLE_DEVICES": ",".join(gpus[number * each : (number + 1) * each])}
        for number in range(num_nodes)
    ]


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usable_gpus() -> list[str]:
    """Return the GPUs that we may use ourselves, by index or UUID."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [name.strip() for name in given.split(",") if re.match(r"\s*(\d|GPU-|MIG-)", name)]
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:  # no driver
        return []
    try:
        return [str(index) for index in range(pynvml.nvmlDeviceGetCount())]
    finally:
        pynvml.nvmlShutdown()
