"""Nodes as boxes: which run holds which slot, and what is wrong with the node."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from django.utils.safestring import SafeString, mark_safe

from dashboard.pages.shared.run_colours import colours_apart
from dashboard.pages.shared.run_rows import run_url
from dashboard.pages.shared.stencil import stencil
from runs.life.watching.slow_ranks import slow_sentences
from runs.models import Attempt, HeldSlot, Node, Run
from runs.presenting.server_state import contact_time
from runs.rights.access import Someone, visible_runs
from trainyard.formats.words import listed

MAX_SLOTS = 128  # squares drawn of one node; the rest is counted
ANOTHER = "a run of another project"


class NodeBox(NamedTuple):
    node: Node
    slots: SafeString  # a square for each
    num_hidden: int
    num_held: int
    is_away: bool
    has_gpus: bool
    runs: list[tuple[Run, int]]  # with the number of its series colour
    slow: list[str]  # sentences about ranks here that slow others down


def boxes_of(user: Someone, nodes: Sequence[Node], now: datetime) -> list[NodeBox]:
    held = HeldSlot.objects.filter(node__in=nodes).values_list("node_id", "index", "placement__attempt__run_id")
    by_node: dict[str, dict[int, list[str]]] = {node.pk: {} for node in nodes}
    for node_id, index, run_id in held:
        by_node[node_id].setdefault(index, []).append(run_id)
    run_ids = {run_id for _, _, run_id in held}
    runs = {run.pk: run for run in visible_runs(user).filter(pk__in=run_ids)} if run_ids else {}
    in_order = sorted(runs.values(), key=lambda run: (run.created_at, run.pk))
    colours = {run_id: colour + 1 for run_id, colour in colours_apart(user, in_order).items()} if runs else {}
    slow, known, made = _slow(runs), contact_time(now), []
    for node in nodes:
        own, num_shown = by_node[node.pk], min(node.slots, MAX_SLOTS)
        squares = [_square(index, own.get(index, []), runs, colours) for index in range(num_shown)]
        here = {run_id: runs[run_id] for holders in own.values() for run_id in holders if run_id in runs}
        box = NodeBox(
            node=node,
            slots=mark_safe("".join(squares)),
            num_hidden=node.slots - num_shown,
            num_held=len(own),
            is_away=not node.is_in_contact(known),
            has_gpus=node.accelerator == "gpu",
            runs=[(run, colours[run.pk]) for run in here.values()],
            slow=slow[node.pk],
        )
        made.append(box)
    return made


def _slow(runs: Mapping[str, Run]) -> defaultdict[str, list[str]]:
    """Return sentences about slow ranks of these runs, by node."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for attempt in Attempt.objects.filter(run__in=list(runs), ended_at=None).exclude(slow_ranks=[]):
        ranks = sorted(attempt.stragglers, key=lambda one: (one.node_id, one.rank))
        for node_id, group in groupby(ranks, key=lambda one: one.node_id):
            sentences = slow_sentences(list(group), num_ranks=attempt.world_size)
            found[node_id].append(f"{runs[attempt.run_id].name}: {' '.join(sentences)}")
    return found


def _square(index: int, holders: Sequence[str], runs: Mapping[str, Run], colours: Mapping[str, int]) -> str:
    """The square of a slot: a link where this person sees a run that holds it."""
    holding = [runs.get(run_id) for run_id in holders]
    run = next((one for one in holding if one is not None), None)
    names = list(dict.fromkeys(one.name if one else ANOTHER for one in holding))
    if run is None:
        return _plain(index, listed(names) if names else "free", is_held=bool(names))
    link = stencil("nodes/_slot.html", ("colour", "url", "words"), is_seen=True)
    return link.fill(colour=colours[run.pk], url=run_url(run.pk), words=f"slot {index}: {listed(names)}")


@lru_cache(maxsize=2 * MAX_SLOTS)  # free, and held by somebody else
def _plain(index: int, words: str, *, is_held: bool) -> str:
    return stencil("nodes/_slot.html", ("words",), is_seen=False, is_held=is_held).fill(words=f"slot {index}: {words}")
