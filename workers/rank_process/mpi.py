"""Process manager of MPI's ranks: the space of keys and values by which the libraries of MPICH find each other.

MPICH, and Intel MPI and MVAPICH with it, speak PMI-1 with what started them (``src/pmi/maint/pmi-1.1.txt`` of MPICH):
lines of ``cmd=NAME KEY=VALUE …`` over a socket, whose descriptor PMI_FD names. Rank 0 forks a process that serves the
ranks of all nodes. It is in the sandbox and the network of the ranks, whose own words it reads, ends once all of them
have come and gone, and at the latest with the attempt.
"""

import asyncio
import contextlib
import errno
import os
import re
import socket
import sys
import time

import msgspec

from workers.machine.processes import name_process

PATIENCE_S = 60.0  # in which rank 0 begins, on another node
RETRY_EVERY_S = 0.05
WORDS = re.compile(rb"([\w/-]+)=((?:\\.|[^\s\\])*)")  # a library writes a backslash before its spaces, and reads it
SERVED = {
    b"init": b"response_to_init pmi_version=1 pmi_subversion=1 rc=0",
    b"get_maxes": b"maxes kvsname_max=256 keylen_max=64 vallen_max=1024",  # as MPICH's own mpiexec has them
    b"get_appnum": b"appnum appnum=0",
    b"finalize": b"finalize_ack",
}


class MpiWorld(msgspec.Struct, frozen=True):
    """Ranks of an attempt, as many on each of its nodes. ``address``: host:port of their process manager."""

    address: str
    size: int
    num_nodes: int


def join_world(world: MpiWorld, rank: int) -> dict[str, str]:
    """Return the variable by which this process, once it is the rank's program, finds its process manager, which rank 0
    starts. Nothing, with a line in the log, where none is reached. Raises OSError where the port of rank 0 is taken."""
    host, _, port = world.address.replace("[", "").replace("]", "").rpartition(":")
    if rank == 0:
        _start(world, host, int(port))
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            connection = socket.create_connection((host, int(port)), PATIENCE_S)
            connection.settimeout(None)
            connection.set_inheritable(True)
            return {"PMI_FD": str(connection.detach())}
        time.sleep(RETRY_EVERY_S)
    os.write(2, f"Trainyard: MPI does not reach rank 0 at {world.address}.\n".encode())
    return {}


def _start(world: MpiWorld, host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        if error.errno != errno.EADDRNOTAVAIL:
            raise
        listener = socket.create_server(("", port), family=family)  # others reach this node by an address of a gateway
    with listener:
        if os.fork() != 0:
            return
        try:
            name_process("ty-mpi")
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the rank's output ends with the rank
            asyncio.run(serve(world, listener))
        except BaseException as error:
            sys.stderr.write(f"Trainyard: the process manager of MPI failed: {error!r}\n")
        finally:
            os._exit(0)


async def serve(world: MpiWorld, listener: socket.socket) -> None:
    """Serve the ranks until as many have gone as there are."""
    nodes = b"(vector,(0,%d,%d))" % (world.num_nodes, world.size // world.num_nodes)  # of the ranks, in their order
    values = {b"PMI_process_mapping": nodes}
    served = SERVED | {b"get_universe_size": b"universe_size size=%d" % world.size}
    served[b"get_my_kvsname"] = b"my_kvsname kvsname=" + os.urandom(8).hex().encode()  # shared memory has its name
    waiting: list[asyncio.StreamWriter] = []  # at the barrier
    gone: asyncio.Queue[None] = asyncio.Queue()

    async def attend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError):  # it broke off, or what it says is no line
            async for line in reader:
                words = dict(WORDS.findall(line))
                if words.get(b"cmd") == b"barrier_in":
                    waiting.append(writer)
                    if len(waiting) == world.size:
                        for one in waiting:
                            one.write(b"cmd=barrier_out\n")
                        waiting.clear()
                elif b"cmd" in words or line == b"endcmd\n":  # the end of what asks for more processes
                    writer.write(b"cmd=" + _answer(words.get(b"cmd", b"spawn"), words, values, served) + b"\n")
        writer.close()
        gone.put_nowait(None)

    async with await asyncio.start_server(attend, sock=listener):
        for _ in range(world.size):
            await gone.get()


def _answer(command: bytes, words: dict[bytes, bytes], values: dict[bytes, bytes], served: dict[bytes, bytes]) -> bytes:
    key = words.get(b"key", b"")
    if command == b"put":
        values[key] = words.get(b"value", b"")
        return b"put_result rc=0 msg=success"
    if command == b"get":
        return b"get_result rc=0 value=" + values[key] if key in values else b"get_result rc=-1 msg=unknown"
    return served.get(command, command.removesuffix(b"_name") + b"_result rc=-1 msg=not_served")
