"""What a rank gets: its environment, its cell, its port."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import NamedTuple

import psutil

from workers.attempt.folder import AttemptFolder
from workers.contract import Document
from workers.data_access.hosts import HOSTS
from workers.data_access.roots import CLOSED, ROOTS
from workers.rank_process.cold_start import why_cold
from workers.rank_process.run import RankPlan
from workers.sandbox.node import Shelter
from workers.sandbox.process import Cell
from workers.supervisor.ranks.environment import environment_of, is_distributed, torchrun_variables

COLD_NOTE = "Trainyard: this rank starts in an interpreter of its own, which takes seconds"


class Start(NamedTuple):
    """How ranks begin: in the interpreter ``python``, or warm where that is empty, with a line in their log."""

    python: str = ""
    note: str = ""


def start_of_ranks(order: Document, folder: AttemptFolder) -> Start:
    task = order["spec"]["task"]
    if "script" not in task or task.get("python"):
        return Start(task.get("python") or "")
    if why := why_cold(task, folder.code):
        return Start(sys.executable, f"{COLD_NOTE}: {why}.")
    return Start()


def plan_rank(
    local_rank: int,
    *,
    order: Document,
    go: Document,
    folder: AttemptFolder,
    cache: Path,
    checkpoints: Path,
    address: str,
    shelter: Shelter,
    start: Start,
) -> RankPlan:
    """``checkpoints`` is the folder under which each run has its own."""
    own = environment_of(
        local_rank,
        order=order,
        folder=folder,
        cache=cache,
        checkpoints=_candidates(go, checkpoints),
        checkpoints_of_run=checkpoints / order["run"],
        interface=interface_of(address),
    )
    torchrun = torchrun_variables(local_rank, order=order, go=go, folder=folder)
    own = own | torchrun if is_distributed(order) else {name: own[name] for name in own if name not in torchrun}
    if "recipe" in order["spec"]["task"]:  # where one may read from is the node's to say, whatever the spec sets
        rules = {name: os.environ.get(name, "") for name in (ROOTS, HOSTS)}
        own |= {**rules, CLOSED: os.pathsep.join(shelter.hidden)}
    return RankPlan(
        rank=order["first_rank"] + local_rank,
        folder=folder,
        spec=order["spec"],
        environment=own,
        python=start.python,
        note=start.note,
        variables={**torchrun, **own},
        cell=cell_of(order, go, folder, cache=cache, checkpoints=checkpoints, shelter=shelter),
        threads=int(number) if (number := own.get("TRAINYARD_THREADS", own["OMP_NUM_THREADS"])).isdecimal() else 1,
    )


def cell_of(
    order: Document, go: Document, folder: AttemptFolder, *, cache: Path, checkpoints: Path, shelter: Shelter
) -> Cell:
    """What the rank's process is shut in with: it writes its attempt's folders, its project's cache and its run's
    checkpoints, and reads those that it may go on from."""
    others = {Path(one["folder"]) for one in _candidates(go, checkpoints) if one["run"] != order["run"]}
    own = [*folder.rooms, cache, checkpoints / order["run"]]
    return shelter.cell(order["spec"].get("project", ""), own=own, shown=[folder.path, *sorted(others)])


def _candidates(go: Document, checkpoints: Path) -> list[Document]:
    """What the server named, with where it would lie here; one that is older names nothing."""
    return [
        {**one, "folder": str(checkpoints / one["run"] / f"step-{one['step']}.fence-{one['fence']}")}
        for one in go.get("checkpoints") or []
    ]


def interface_of(address: str) -> str | None:
    """Return the network interface that has ``address``, so that ranks talk over it and not over a guess."""
    for name, addresses in psutil.net_if_addrs().items():
        if any(one.address == address for one in addresses):
            return str(name)
    return None


def reserve_port(address: str) -> socket.socket:
    """Return a socket bound to a free port of ``address``. It keeps the port from others until rank 0 listens there.

    Both it and torch's store set SO_REUSEADDR and it never listens, so that the store may bind while it is open.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    reserved = socket.socket(family, socket.SOCK_STREAM)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        reserved.bind((address, 0))
    except OSError:  # an address that only others see, behind a translation: any interface will do
        reserved.bind(("", 0))
    return reserved
