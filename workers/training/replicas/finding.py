"""Going on from a state in memory: the newest of which every part that is needed lies, undamaged, on some node."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist

from workers.replicas.folders import MemoryFolder, NoRoom, ReplicaPlan, RunMemory
from workers.training.build import Training
from workers.training.checkpoints.manifest import MANIFEST, Damaged, Manifest, StoredFile, parse_manifest
from workers.training.checkpoints.reading import CheckpointReader, Found, intersection, refuse_other_model, sha256_of
from workers.training.checkpoints.state import Parameters, is_same_mesh, regions_to_read
from workers.training.checkpoints.store import Candidate, Mark, Store, find
from workers.training.group import gather_all
from workers.training.replicas.last import with_random_states

CHUNK_BYTES = 8 << 20  # that a rank holds of what it sends or receives


@dataclass(frozen=True, slots=True)
class RefusedState:
    """A state in memory that is not used, or one node's copy of a part of it."""

    mark: Mark
    nodes: tuple[str, ...]
    why: str


@dataclass(slots=True)
class Search:
    """Result of a search: the state to go on from, from the memory of ``nodes``, and what was refused before it."""

    found: Found | None = None
    nodes: tuple[str, ...] = ()
    refused: list[RefusedState] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Held:
    """Content of its node's memory, as a rank sees it: the states, by mark, and which parts of each lie here with what
    size."""

    node: str
    folder: str
    states: Mapping[Mark, Mapping[str, int]]


def search(
    plan: ReplicaPlan, store: Store, training: Training, parameters: Parameters, kind: str, *, not_before: Mark | None
) -> Search:
    """Look for the newest state in memory that is not older than ``not_before``. A collective.

    Raises ValueError, on every rank, for a state of another model.
    """
    result = Search()
    held = gather_all(_held(plan, store.fence))
    if any(one is None for one in held):
        return result
    nodes = [one for one in held if one is not None]
    rank = training.mesh.rank
    for mark in sorted({mark for one in nodes for mark in one.states}, reverse=True):
        if not_before is not None and mark < not_before:
            break
        text, problem = _manifest(plan, mark, nodes, rank)
        if text is None:
            if problem:
                result.refused.append(RefusedState(mark, _names(nodes, mark), problem))
            continue  # it never was whole
        manifest = parse_manifest(text)
        if manifest.run != store.run or manifest.world_size != training.mesh.world_size:
            continue
        if not is_same_mesh(training, manifest):
            continue
        whole = with_random_states(manifest, plan.memory, ranks_here(nodes, rank), rank)
        if whole is None:  # a rank ended before it had left its own
            continue
        candidate = Candidate(store.run, mark, plan.memory.own / mark.name)
        refuse_other_model(candidate, whole, parameters)
        if _use(result, candidate, whole, nodes, plan, training, parameters, kind):
            return result
    return result


def _held(plan: ReplicaPlan, fence: int) -> Held | None:
    """Return what lies here of attempts that may be gone on from."""
    if plan.restore_above is None:
        return None
    states: dict[Mark, dict[str, int]] = {}
    memory = plan.memory
    for side in (memory.own, memory.peer):
        for mark in find(side) if plan.folder and side.is_dir() else []:
            is_late = plan.restore_until_step is not None and mark.step > plan.restore_until_step
            if plan.restore_above < mark.fence < fence and not is_late:
                states.setdefault(mark, {}).update(_files(side / mark.name))
    return Held(plan.node, plan.folder, states)


def _files(folder: Path) -> dict[str, int]:
    try:
        return {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}
    except OSError:
        return {}


def _manifest(plan: ReplicaPlan, mark: Mark, nodes: Sequence[Held], rank: int) -> tuple[str | None, str]:
    """Return the first manifest of the state that is as it was written, else why none is. A collective."""
    mine: str | None = None
    text: str | None = None
    problem = ""
    if MANIFEST in nodes[rank].states.get(mark, {}):
        for folder in plan.memory.places(mark.name):
            try:
                text = (folder / MANIFEST).read_text()
                parse_manifest(text)
            except (OSError, UnicodeDecodeError) as error:
                problem = f"{MANIFEST} cannot be read: {error}"
            except Damaged as error:
                problem = str(error)
            else:
                mine = text
                break
    first = next((at for at, has in enumerate(gather_all(mine is not None)) if has), None)
    problems = [one for one in gather_all(problem) if one]
    text = gather_all(mine if rank == first else None)[first] if first is not None else None
    return text, problems[0] if problems else ""


def _use(
    result: Search,
    candidate: Candidate,
    manifest: Manifest,
    nodes: Sequence[Held],
    plan: ReplicaPlan,
    training: Training,
    parameters: Parameters,
    kind: str,
) -> bool:
    """Put together what every node needs of the state, and read what this rank does. A collective."""
    rank, mark = training.mesh.rank, candidate.mark
    sound = gather_all(_sound(plan, mark, manifest, nodes, rank))
    damaged = {(nodes[at].node, name): why for at, (_, bad) in enumerate(sound) for name, why in bad.items()}
    for (node, name), why in damaged.items():
        result.refused.append(RefusedState(mark, (node,), f"{name} {why}"))
    holders: dict[str, set[str]] = {}
    for at, (good, _) in enumerate(sound):
        for name in good:
            holders.setdefault(name, set()).add(nodes[at].folder + nodes[at].node)
    regions = regions_to_read(training, parameters, manifest, kind)
    stored = ((region, part) for name, region in regions.items() for part in manifest.tensors[name].parts)
    needed = gather_all({part.file for region, part in stored if intersection(region, part) is not None})
    missing = sorted({name for names in needed for name in names} - holders.keys())
    if missing:
        if not damaged:
            why = f"{', '.join(missing[:3])} {'is' if len(missing) == 1 else 'are'} on no node that is left"
            result.refused.append(RefusedState(mark, _names(nodes, mark), why))
        return False
    keys = [one.folder + one.node for one in nodes]
    moves = moves_for(keys, needed, holders)
    tensors, why = {}, carry_out(moves, plan, mark, manifest, rank, training.device)
    if not why:
        try:
            with CheckpointReader(candidate.folder, manifest, _places(plan, mark, manifest)) as reader:
                tensors = {name: reader.read(name, region) for name, region in regions.items()}
        except Damaged as error:
            why = str(error)
    if whys := [one for one in gather_all(why) if one]:
        result.refused.append(RefusedState(mark, _names(nodes, mark), whys[0]))
        return False
    result.found = Found(candidate, manifest, tensors)
    names = dict(zip(keys, (one.node for one in nodes), strict=True))
    sources = {names[keys[at]] for at, one in enumerate(needed) if any(keys[at] in holders[name] for name in one)}
    sources |= {names[keys[move.source]] for move in moves}
    result.nodes = tuple(sorted(sources))
    return True


def _names(nodes: Sequence[Held], mark: Mark) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.node for one in nodes if mark in one.states))


def _sound(
    plan: ReplicaPlan, mark: Mark, manifest: Manifest, nodes: Sequence[Held], rank: int
) -> tuple[set[str], dict[str, str]]:
    """Check this rank's share of what lies on its node; return the parts that are as they were taken, and of the
    others why not."""
    here = ranks_here(nodes, rank)
    places = _places(plan, mark, manifest)
    names = sorted(places, key=lambda name: (-manifest.files[name].bytes, name))
    good, bad = set(), {}
    for name in names[here.index(rank) :: len(here)]:
        try:
            if places[name].stat().st_size != manifest.files[name].bytes:
                bad[name] = f"has {places[name].stat().st_size} bytes of its {manifest.files[name].bytes}"
            elif sha256_of(places[name]) != manifest.files[name].sha256:
                bad[name] = "is not as it was taken: its SHA-256 differs"
            else:
                good.add(name)
        except (OSError, Damaged) as error:
            bad[name] = f"cannot be read: {error}"
    return good, bad


def ranks_here(nodes: Sequence[Held], rank: int) -> list[int]:
    """Return the ranks that share the memory of this one's node."""
    key = (nodes[rank].node, nodes[rank].folder)
    return [at for at, one in enumerate(nodes) if (one.node, one.folder) == key]


def _places(plan: ReplicaPlan, mark: Mark, manifest: Manifest) -> dict[str, Path]:
    """Return where the parts lie that this node has."""
    places: dict[str, Path] = {}
    for folder in plan.memory.places(mark.name) if plan.folder else ():
        for name in manifest.files:
            if name not in places and (folder / name).is_file():
                places[name] = folder / name
    return places


def moves_for(keys: Sequence[str], needed: Sequence[set[str]], holders: Mapping[str, set[str]]) -> "list[Move]":
    """Return which rank sends which part to which rank, so that every node has what its ranks need: of each node its
    first rank sends and receives. Every rank comes to the same answer."""
    first = {key: keys.index(key) for key in keys}
    moves = []
    for key, to in sorted(first.items(), key=lambda one: one[1]):
        for name in sorted({name for at, names in enumerate(needed) if keys[at] == key for name in names}):
            if key not in holders[name]:
                moves.append(Move(name, min(first[holder] for holder in holders[name]), to))
    return moves


# Parts of a state on their way between nodes when a training goes on: over the ranks' own connections.


class Move(NamedTuple):
    name: str
    source: int
    to: int


def carry_out(
    moves: list[Move], plan: ReplicaPlan, mark: Mark, manifest: Manifest, rank: int, device: torch.device
) -> str:
    """Send and receive what concerns this rank; return why a part could not be received, empty where all were."""
    memory, problem = plan.memory, ""
    for move in moves:
        stored = manifest.files[move.name]
        if rank == move.source:
            path = next(folder / move.name for folder in memory.places(mark.name) if (folder / move.name).is_file())
            _send(path, stored.bytes, move.to, device)
        elif rank == move.to:
            problem = _receive(memory, plan, mark, move, stored, device) or problem
    return problem


def _send(path: Path, num_bytes: int, to: int, device: torch.device) -> None:
    with path.open("rb", buffering=0) as file:
        left = num_bytes
        while left:
            data = bytearray(file.read(min(left, CHUNK_BYTES)))
            data += bytes(min(left, CHUNK_BYTES) - len(data))  # it has shrunk meanwhile: its digest shows that
            dist.send(torch.frombuffer(data, dtype=torch.uint8).to(device), dst=to)
            left -= len(data)


def _receive(
    memory: RunMemory, plan: ReplicaPlan, mark: Mark, move: Move, stored: StoredFile, device: torch.device
) -> str:
    """Whatever goes wrong here, all that was sent is received: the sender waits for that."""
    folder, problem = memory.own / mark.name, ""
    digest, left = hashlib.sha256(), stored.bytes
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        MemoryFolder(memory.path, plan.limit_bytes).refuse_beyond_limit(stored.bytes)
        file = (folder / f".{move.name}").open("wb", buffering=0)
    except (OSError, NoRoom) as error:
        file, problem = None, str(error)
    while left:
        chunk = torch.empty(min(left, CHUNK_BYTES), dtype=torch.uint8, device=device)
        dist.recv(chunk, src=move.source)
        data = chunk.cpu().numpy().data
        digest.update(data)
        left -= len(data)
        if file is not None and not problem:
            try:
                if file.write(data) != len(data):
                    problem = "the memory folder is full"
            except OSError as error:
                problem = str(error)
    if file is not None:
        file.close()
        if not problem and digest.hexdigest() != stored.sha256:
            problem = f"{move.name} did not arrive as it was taken: its SHA-256 differs"
        if problem:
            (folder / f".{move.name}").unlink(missing_ok=True)
        else:
            (folder / f".{move.name}").rename(folder / move.name)
    return f"{move.name}: {problem}" if problem else ""
