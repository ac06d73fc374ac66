"""Why a run waits, in words. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from runs.placing.fitting import (
    AUTO,
    CPU,
    GPU,
    Free,
    Request,
    Room,
    could_ever_fit,
    has_needed,
    is_usable,
    kinds_of,
    suits,
)
from runs.values.status import Reason, WaitCode
from trainyard.contract.machines import Inventory
from trainyard.formats.words import counted, listed

NUM_COUNTED = 100  # runs ahead of a waiting one are counted so far; a longer queue has only its order of magnitude
MANY = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)


def turn(cluster: str, num_ahead: int, first: Request) -> Reason:
    """The reason of who waits behind others. It holds nothing that changes for a whole long queue at once: every
    change is written to the rows."""
    if num_ahead > NUM_COUNTED:
        ahead = f"more than {max(one for one in MANY if one < num_ahead):,} runs are ahead of yours"
        return Reason(WaitCode.BEHIND, f"Waiting its turn on cluster {cluster}: {ahead}.")
    ahead = f"{num_ahead} runs are ahead of yours, and the first" if num_ahead > 1 else "one run is ahead of yours, and"
    return Reason(WaitCode.BEHIND, f"Waiting its turn on cluster {cluster}: {ahead} needs {_needs(first)}.")


def _needs(request: Request) -> str:
    each = "" if request.num_nodes == 1 else " each"
    return f"{counted(request.num_nodes, 'node')} with {counted(request.slots_per_node, 'slot')}{each}"


def why_never(cluster: str, request: Request, rooms: Sequence[Room]) -> Reason | None:
    """Say why the registered nodes could not hold the run even if they were idle; None where they could."""
    if not rooms:
        return Reason(WaitCode.NO_NODE, f"Waiting for a node: cluster {cluster} has none yet.")
    if could_ever_fit(request, rooms):
        return _why_no_container(cluster, request, rooms)
    matching = [room for room in rooms if room.accelerator in kinds_of(request)]
    if request.needs and could_ever_fit(replace(request, needs=None), rooms):
        missing = [request.needs.missing(room.machine) for room in matching]
        if request.level and missing.count([]) >= request.num_nodes:
            place = f"no {request.level} has {_needs(request)}"
            return Reason(WaitCode.NO_NODE, f"Waiting for more nodes in one place on cluster {cluster}: {place}.")
        nowhere = [words for words in missing[0] if all(words in one for one in missing)]
        who = "no node here has one" if nowhere else f"of {len(missing)} nodes here {missing.count([])} have all of it"
        needs = listed(nowhere or request.needs.missing(Inventory()))
        return Reason(WaitCode.NO_NODE, f"Waiting for other nodes on cluster {cluster}: this run needs {needs}: {who}.")
    largest = max((room.num_slots for room in matching), default=0)
    return Reason(
        WaitCode.NO_NODE,
        f"Waiting for larger or more nodes: cluster {cluster} has {counted(len(matching), 'node')}{_kind(request)} "
        f"of at most {counted(largest, 'slot')}, this run needs {counted(request.num_nodes, 'node')} "
        f"with {counted(request.slots_per_node, 'slot')} each.",
    )


def _why_no_container(cluster: str, request: Request, rooms: Sequence[Room]) -> Reason | None:
    """Say that the nodes which run containers could not hold it even if they were idle; None where they could."""
    able = [room for room in rooms if suits(room, request)]
    if could_ever_fit(request, able):
        return None
    without = listed([room.name for room in rooms if not room.runs_containers], at_most=3)
    rest = f" without Podman are {without}, and the rest cannot hold it." if able else " none of its nodes has Podman."
    return Reason(WaitCode.NO_NODE, f"Waiting for nodes that run containers on cluster {cluster}:{rest}")


def why_not_without(cluster: str, request: Request, rooms: Sequence[Room]) -> Reason | None:
    """Say that the nodes which the run may have could not hold it even if they were idle; None where they could."""
    others = [room for room in rooms if room.node not in request.excluded] if request.excluded else rooms
    if len(others) == len(rooms) or could_ever_fit(request, others):
        return None
    left_out = _are([room for room in rooms if room.node in request.excluded], "left out")
    sentence = f"Waiting for other nodes on cluster {cluster}: {left_out}, and the rest cannot hold it."
    return Reason(WaitCode.LEFT_OUT, sentence)


def reason(cluster: str, request: Request, rooms: Sequence[Room], free: Free) -> Reason:
    """Return why the run is not placed that the registered nodes could hold, and nobody is before it."""
    matching = [room for room in rooms if room.accelerator in kinds_of(request)]
    usable = [room for room in matching if is_usable(room, request)]
    num_free = sum(len(free[room.node]) for room in usable)
    num_slots = sum(room.num_slots for room in usable)
    trouble = "".join(f" {one}" for one in dict.fromkeys(room.trouble for room in matching) if one)
    state = f"{num_free} of {num_slots} free{_away(matching, request)}.{trouble}"
    code = WaitCode.SLOTS if could_ever_fit(request, usable) else WaitCode.UNUSABLE
    slots = _slots(request, matching)
    missing = request.num_slots - num_free
    if missing > 0:
        return Reason(code, f"Waiting for {missing} more {_plural(missing, slots)} on cluster {cluster}: {state}")
    fitting = [room for room in usable if len(free[room.node]) >= request.slots_per_node]
    more = request.num_nodes - max(map(len, request.areas(fitting)), default=0)
    near = f" in one {request.level}" if request.level else ""
    wanted = _plural(request.slots_per_node, slots)
    return Reason(
        code,
        f"Waiting for {more} more {_plural(more, 'node')} with {request.slots_per_node} free {wanted}{near} "
        f"on cluster {cluster}: {state}",
    )


def _away(rooms: Sequence[Room], request: Request) -> str:
    """Name the nodes that would help but cannot."""
    usable = [room for room in rooms if room.is_usable]
    lacking = [room for room in usable if not has_needed(room, request.needs)]
    needs = listed(request.needs.missing(Inventory()), last="or") if request.needs else ""
    parts = (
        _are([room for room in rooms if not room.is_in_contact], "out of contact"),
        _are([room for room in rooms if room.is_in_contact and room.is_draining], "draining"),
        _are(
            [room for room in rooms if room.is_in_contact and not room.is_draining and room.is_exposed],
            "below the sandbox level that the cluster asks for",
        ),
        f"{counted(len(lacking), 'node')} without {needs}" if lacking else "",
        _are(
            [room for room in usable if request.in_container and not room.runs_containers],
            "without Podman, which its container needs",
        ),
        _are([room for room in usable if room.node in request.excluded], "left out"),
    )
    return "".join(f"; {part}" for part in parts if part)


def _are(rooms: Sequence[Room], what: str) -> str:
    return f"{listed([room.name for room in rooms])} {'is' if len(rooms) == 1 else 'are'} {what}" if rooms else ""


def _slots(request: Request, rooms: Sequence[Room]) -> str:
    kinds = {room.accelerator for room in rooms} if request.accelerator == AUTO else {request.accelerator}
    return {frozenset({CPU}): "CPU slot", frozenset({GPU}): "GPU"}.get(frozenset(kinds), "slot")


def _kind(request: Request) -> str:
    return "" if request.accelerator == AUTO else f" with {request.accelerator.upper()} slots"


def _plural(number: int, word: str) -> str:
    return word if number == 1 else f"{word}s"
