"""Checks of one node: its folders, clock, memory and GPUs. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from runs.models.checks import Check, CheckState
from runs.preflight.nodes import CheckedNode
from trainyard.contract.machines import FolderState, GpuFaults
from trainyard.formats.figures import size

OK, WARN, FAIL = CheckState.OK, CheckState.WARN, CheckState.FAIL
CLOCK_WARN_S, CLOCK_FAIL_S = 1.0, 300.0  # logs are out of order; certificates and links are not valid any more
DISK_WARN_BYTES, DISK_FAIL_BYTES = 1 << 30, 16 << 20
MEMORY_WARN_SHARE = 0.05
# Xids of the GPU itself. Others are of the program (13, 31, 43, 45), or are said again by one of these.
FATAL_XIDS = frozenset({48, 62, 64, 74, 79, 92, 95, 119, 120, 140, 143})
XIDS_OF_PROGRAMS = frozenset({13, 31, 43, 45})


def checks_of(node: CheckedNode) -> list[Check]:
    """Return the checks of the node alone. One that is out of contact has no other."""
    if not node.is_in_contact:
        sentence = f"{node.name} is out of contact."
        return [Check(name="contact", state=FAIL, sentence=sentence, node=node.name)]
    if node.own is None or node.own.home is None:
        sentence = f"{node.name} has not checked itself yet, or is of a version that does not."
        return [Check(name="contact", state=WARN, sentence=sentence, node=node.name)]
    own = node.own
    checks = [*_folder_checks(node, own.checkpoints, "checkpoints"), *_folder_checks(node, own.home, "home")]
    checks += [*_clock_checks(node), *_memory_checks(node)]
    return [*checks, *(check for gpu in own.gpus or [] for check in _gpu_checks(node, gpu))]


def _folder_checks(node: CheckedNode, folder: FolderState | None, what: str) -> Iterator[Check]:
    if folder is None:
        return
    words = "folder of checkpoints" if what == "checkpoints" else "folder of attempts and output"
    if folder.problem:
        sentence = f"The {words} on {node.name}, {folder.path}, {folder.problem}."
        yield Check(name=f"{what}-folder", state=FAIL, sentence=sentence, node=node.name)
        return
    if folder.free_bytes is None:
        return
    free = folder.free_bytes
    state = FAIL if free < DISK_FAIL_BYTES else WARN if free < DISK_WARN_BYTES else OK
    sentence = f"{size(free)} are free for the {words} on {node.name}, {folder.path}."
    limit = float(DISK_FAIL_BYTES if state == FAIL else DISK_WARN_BYTES)
    yield Check(
        name=f"{what}-disk",
        state=state,
        sentence=sentence,
        node=node.name,
        value=float(free),
        limit=limit,
        unit="bytes",
    )


def _clock_checks(node: CheckedNode) -> Iterator[Check]:
    ahead_s = None if node.own is None else node.own.clock_ahead_s
    if ahead_s is None:
        return
    off_s = abs(ahead_s)
    state = FAIL if off_s > CLOCK_FAIL_S else WARN if off_s > CLOCK_WARN_S else OK
    side = "ahead of" if ahead_s > 0 else "behind"
    off = f"{off_s:,.0f} s" if off_s >= 10 else f"{off_s:.3f} s"
    yield Check(
        name="clock",
        state=state,
        sentence=f"The clock of {node.name} is {off} {side} the server's.",
        node=node.name,
        value=round(ahead_s, 3),
        limit=CLOCK_FAIL_S if state == FAIL else CLOCK_WARN_S,
        unit="s",
    )


def _memory_checks(node: CheckedNode) -> Iterator[Check]:
    free, total = node.free_memory_bytes, node.health.memory_bytes
    if free is None or not total:
        return
    limit = MEMORY_WARN_SHARE * total
    yield Check(
        name="memory",
        state=WARN if free < limit else OK,
        sentence=f"{size(free)} of {size(total)} of the memory of {node.name} are free.",
        node=node.name,
        value=float(free),
        limit=round(limit),
        unit="bytes",
    )


def _gpu_checks(node: CheckedNode, gpu: GpuFaults) -> Iterator[Check]:
    who = f"GPU {gpu.index} of {node.name}"
    name = "gpu"
    if gpu.xid is not None and gpu.xid not in XIDS_OF_PROGRAMS:
        state = FAIL if gpu.xid in FATAL_XIDS else WARN
        sentence = f"{who} reported Xid {gpu.xid} since its node worker began."
        yield Check(name=name, state=state, sentence=sentence, node=node.name, value=float(gpu.xid), unit="Xid")
    if gpu.ecc_errors:
        errors = f"{gpu.ecc_errors} uncorrected memory error{'s'[: gpu.ecc_errors != 1]}"
        sentence = f"{who} has had {errors} since its driver was loaded: reset it."
        value = float(gpu.ecc_errors)
        yield Check(name=name, state=FAIL, sentence=sentence, node=node.name, value=value, limit=0.0, unit="errors")
    if gpu.slowed_by:
        sentence = f"{who} runs at a lower clock because of {' and '.join(gpu.slowed_by)}."
        yield Check(name=name, state=WARN, sentence=sentence, node=node.name)
    if gpu.xid in (None, *XIDS_OF_PROGRAMS) and not gpu.ecc_errors and not gpu.slowed_by:
        sentence = f"{who} reports no fault."
        yield Check(name=name, state=OK, sentence=sentence, node=node.name, value=0.0, limit=0.0, unit="errors")
