"""What the ranks of an attempt are told about states in the node's memory."""

from __future__ import annotations

from pathlib import Path

from trainyard.contract.base import encode
from trainyard.contract.orders import Go, MemoryOrder, Order
from workers.attempt.zygote_messages import StartRequest
from workers.replicas.folders import MemoryFolder, RunMemory
from workers.replicas.plan import VARIABLE, PeerNode, ReplicaPlan


def replica_plan(request: StartRequest, order: Order, go: Go) -> ReplicaPlan | None:
    """Return the plan for the ranks; None where the spec keeps no states in memory."""
    checkpoint = order.spec.get("checkpoint") or {}
    if not checkpoint.get("every_steps") or not checkpoint.get("replicate_every_steps") or go.memory is None:
        return None
    if not request.memory:
        problem = f"{order.node_name}: {request.memory_problem or 'the node has no memory folder'}"
        return ReplicaPlan(node=order.node_name, problem=problem)
    folder = MemoryFolder(Path(request.memory), request.memory_limit_bytes)
    others = sum(used for run, used in folder.runs().items() if run != order.run)
    return ReplicaPlan(
        node=order.node_name,
        folder=str(folder.run(order.run).path),
        limit_bytes=max(0, folder.limit_bytes - others),
        restore_above=go.memory.restore_above,
        restore_until_step=go.memory.restore_until_step,
        attempt=order.attempt,
        key=order.replica_key,
        peer=peer_of(order, go.memory) if order.replica_key else None,
    )


def peer_of(order: Order, memory: MemoryOrder) -> PeerNode | None:
    """Return the next node of the attempt that receives states, the first behind the last; None where no other does."""
    behind = [*memory.nodes[order.node_rank + 1 :], *memory.nodes[: order.node_rank]]
    for one in behind:
        if one.port is not None and one.address:
            return PeerNode(one.node, one.address, one.port)
    return None


def replica_variables(plan: ReplicaPlan | None) -> dict[str, str]:
    return {} if plan is None else {VARIABLE: encode(plan)}


def replica_folders(plan: ReplicaPlan | None) -> tuple[list[Path], list[Path]]:
    """Return the folders that ranks write, and those that they only read."""
    if plan is None or not plan.folder:
        return [], []
    memory = RunMemory(Path(plan.folder))
    return [memory.own], [memory.peer]
