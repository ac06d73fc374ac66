"""What is wanted of each node, as one document, rewritten from the rows: a lost message costs a tick, never a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, cast

from django.conf import settings

from runs.metrics.models import Producer
from runs.models import Attempt, GoneRun, Node, Placement
from runs.reconcile.orders import locked_order
from runs.reconcile.tracing import wanted_trace
from runs.serving.transport import redis
from runs.status import Phase, Wanted
from trainyard.contract import keys, seals
from workers import contract

SETTLING_GRACE_S = 5.0
Watermarks = Mapping[tuple[str, int], list[Producer]]  # by run and fence


def write_down(nodes: Iterable[Node], ups: Mapping[str, contract.Document], now: datetime) -> None:
    """Write the down documents. ``ups`` are the nodes' own, by id: what they have and we ended must stop there."""
    nodes = list(nodes)
    if not nodes:
        return
    live = _live_placements(nodes)
    strays = _strays(ups, {placement.attempt_id for placement in live})
    runs = {placement.attempt.run_id for placement in live} | {run for stray in strays.values() for run in stray.runs}
    watermarks = _watermarks(runs)
    documents: dict[str, dict[str, Any]] = {node.pk: {} for node in nodes}
    for placement in live:
        documents[placement.node_id][placement.attempt_id] = _wanted(placement, watermarks)
    for node in nodes:
        if node.pk in strays:
            documents[node.pk] |= strays[node.pk].entries(watermarks)
    _send(nodes, documents, now)


class Stray:
    """What a node has of attempts that are not live: they stop, and learn what has arrived of what they wrote."""

    def __init__(self, attempts: Mapping[str, contract.Document], gone: set[str], decided: Mapping[str, str]) -> None:
        self._attempts = attempts
        self._gone = gone
        self._decided = decided  # what is to become of what was not sent

    @property
    def runs(self) -> set[str]:
        return {str(said.get("run")) for said in self._attempts.values()}

    def entries(self, watermarks: Watermarks) -> dict[str, contract.Document]:
        return {
            attempt: {
                **_entry(str(said.get("run")), int(said.get("fence") or 0), "stop", watermarks),
                "is_gone": said.get("run") in self._gone,
                "leftovers": self._decided.get(attempt, ""),
            }
            for attempt, said in self._attempts.items()
        }


def _strays(ups: Mapping[str, contract.Document], live: set[str]) -> dict[str, Stray]:
    listed = {str(attempt) for up in ups.values() for attempt in up.get("attempts", {})} - live
    if not listed:
        return {}
    # An attempt that was placed a moment ago on another thread is live too.
    ended = listed - set(Attempt.objects.filter(pk__in=listed, ended_at=None).values_list("pk", flat=True))
    held = set(
        Placement.objects.filter(attempt__in=ended).exclude(held_slots=None).values_list("attempt_id", flat=True)
    )
    runs = {str(said.get("run")) for up in ups.values() for said in up.get("attempts", {}).values()}
    decided: dict[str, dict[str, str]] = defaultdict(dict)
    words = Placement.objects.filter(attempt__in=ended).exclude(leftovers="")
    for node, attempt, word in words.values_list("node_id", "attempt_id", "leftovers"):
        decided[node][attempt] = word
    gone = set(GoneRun.objects.filter(pk__in=runs).values_list("pk", flat=True))
    return {
        node: Stray(
            {
                attempt: said
                for attempt, said in up.get("attempts", {}).items()
                if attempt in ended and (attempt in held or not said.get("is_done"))
            },
            gone,
            decided[node],
        )
        for node, up in ups.items()
    }


def _live_placements(nodes: list[Node]) -> list[Placement]:
    placements = Placement.objects.filter(node__in=nodes, attempt__ended_at=None)
    return list(placements.select_related("attempt__run", "node"))


def _wanted(placement: Placement, watermarks: Watermarks) -> contract.Document:
    attempt = placement.attempt
    entry = _entry(attempt.run_id, attempt.fence, wanted_of(attempt), watermarks)
    if placement.phase == Phase.PREPARING:
        entry["order"] = locked_order(placement)
    entry["go"] = attempt.go
    entry["trace"] = wanted_trace(attempt)
    entry["may_replace"] = may_replace(attempt)
    entry["grace_s"] = grace_of(attempt)
    return entry


def grace_of(attempt: Attempt) -> float | None:
    """Return what its ranks have to end: none where somebody asked twice, what the spec says where somebody asked, and
    little where the outcome is known, since the others cannot step and somebody waits for their slots."""
    if attempt.stop is not None:
        return 0.0 if attempt.stop["at_once"] else None
    return None if attempt.run.wanted == Wanted.STOP else SETTLING_GRACE_S


def may_replace(attempt: Attempt) -> bool:
    """Whether the server may place another attempt of the run after a lease of silence alone. It places none by itself,
    and a person's restart waits until the nodes have confirmed the end (`runs.actions`): so its ranks need not fear a
    successor, and go on while the server is away."""
    return False


def wanted_of(attempt: Attempt) -> str:
    """``stop`` when a person wants it, or the outcome is known; ``run`` after go; else ``prepare``."""
    if attempt.run.wanted == Wanted.STOP or attempt.settling_at is not None or attempt.ended_at is not None:
        return "stop"
    return "run" if attempt.go else "prepare"


def _entry(run: str, fence: int, wanted: str, watermarks: Watermarks) -> contract.Document:
    producers = watermarks.get((run, fence), [])
    return {
        "run": run,
        "fence": fence,
        "wanted": wanted,
        "order": None,
        "go": None,
        "trace": None,
        "grace_s": SETTLING_GRACE_S,
        "leftovers": "",
        "is_gone": False,
        "watermarks": {producer.producer: producer.watermark for producer in producers},
        "resend": [producer.producer for producer in producers if producer.has_gap],
    }


def _watermarks(runs: set[str]) -> Watermarks:
    found: dict[tuple[str, int], list[Producer]] = defaultdict(list)
    if runs:
        for producer in Producer.objects.filter(run_id__in=runs):
            found[producer.run_id, producer.attempt].append(producer)
    return found


def _send(nodes: list[Node], documents: Mapping[str, dict[str, Any]], now: datetime) -> None:
    pipe: Any = redis().pipeline(transaction=False)
    epoch = _epoch()
    for node in nodes:
        key = keys.down_key(node.pk)
        document = {
            "at": now.timestamp(),
            "node": node.pk,
            "epoch": epoch,
            "server": settings.PUBLIC_URL,
            "attempts": documents[node.pk],
        }
        pipe.set(key, seals.seal(node.key, key, document))
    pipe.execute()


def _epoch() -> str:
    """Return the stream's epoch, which lives as long as Valkey's data: another one means that the data was lost."""
    epoch = cast("bytes | None", redis().get(keys.EPOCH_KEY))
    if epoch is None:
        redis().set(keys.EPOCH_KEY, keys.new_key()[:16], nx=True)
        epoch = cast("bytes | None", redis().get(keys.EPOCH_KEY))
    return (epoch or b"").decode()
