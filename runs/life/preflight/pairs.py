"""Checks between nodes that are to train together: connections both ways, and equal versions. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from runs.life.preflight.needs import FAIL, OK, WARN, CheckedNode
from runs.values.columns import Check
from trainyard.formats.figures import speed
from trainyard.formats.words import listed
from trainyard.grouping import grouped

STALE_S = 300.0  # an older result says nothing
SLOW_S = 0.1


class Broken(NamedTuple):
    """Two nodes without a connection between them, and the sentence about it."""

    first: str  # id of the one that tried
    second: str
    sentence: str


def broken_connections(nodes: Sequence[CheckedNode]) -> list[Broken]:
    """Return the connections between these nodes that failed when they were last tried. One to a node that is out of
    contact proves nothing."""
    by_id = {node.id: node for node in nodes if node.is_in_contact}
    found = []
    for node in by_id.values():
        for peer, result in (node.own.peers if node.own else {}).items():
            if result.problem and peer in by_id and node.own is not None and node.own.at - result.at <= STALE_S:
                found.append(Broken(node.id, peer, f"{node.name} does not reach {by_id[peer].name}: {result.problem}."))
    return found


def connection_checks(nodes: Sequence[CheckedNode]) -> list[Check]:
    """Return for each node a check of how many others it reaches, and a check for each connection that failed."""
    names = {node.id: node.name for node in nodes}
    checks = [_reached(node, nodes) for node in nodes if node.is_in_contact and node.own is not None and len(nodes) > 1]
    for one in broken_connections(nodes):
        first, second = names[one.first], names[one.second]
        checks.append(Check(name="connection", state=FAIL, sentence=one.sentence, node=first, peer=second))
    return [check for check in checks if check is not None]


def _reached(node: CheckedNode, nodes: Sequence[CheckedNode]) -> Check | None:
    assert node.own is not None
    names = {one.id: one.name for one in nodes if one.id != node.id and one.is_in_contact}
    took = {names[peer]: result.seconds for peer, result in node.own.peers.items() if peer in names and result.seconds}
    if not took:
        if names and not any(peer in names for peer in node.own.peers):
            return node.check("connection", WARN, f"{node.name} has not tried a connection to the others yet.")
        return None
    slowest = max(took, key=lambda name: took[name] or 0.0)
    seconds = took[slowest] or 0.0
    words = f"an answer takes {1000 * seconds:.2f} ms{f' from {slowest}' if len(took) > 1 else ''}."
    sentence = f"{node.name} reaches {listed(sorted(took)) if len(took) <= 3 else f'{len(took)} nodes'}; {words}"
    return node.check("connection", WARN if seconds > SLOW_S else OK, sentence, seconds, SLOW_S, "s")


def collective_checks(nodes: Sequence[CheckedNode]) -> list[Check]:
    """Return a check for each node on which the collective failed, else one check with its speed and latency."""
    results = {node.name: node.own.collective for node in nodes if node.own and node.own.collective}
    words = f"A collective over {len(nodes)} nodes failed on"
    failed = [
        Check(name="collective", state=FAIL, sentence=f"{words} {name}: {one.problem.rstrip('.')}.", node=name)
        for name, one in results.items()
        if one.problem
    ]
    done = {name: one for name, one in results.items() if one.bytes_per_s is not None and one.latency_s is not None}
    if failed or not done:
        return failed
    slowest = min(done, key=lambda name: done[name].bytes_per_s or 0.0)
    rate, latency_s = done[slowest].bytes_per_s or 0.0, max(one.latency_s or 0.0 for one in done.values())
    single = f"one of a single number takes {1000 * latency_s:.2f} ms."
    sentence = f"An all-reduce of 4.0 MiB over {len(done)} nodes sends {speed(rate)}; {single}"
    return [Check(name="collective", state=OK, sentence=sentence, node="", value=rate, unit="B/s")]


def version_checks(nodes: Sequence[CheckedNode]) -> list[Check]:
    """Return a check for each version of a node that most others do not have, else one check that all are equal."""
    known = [node for node in nodes if node.is_in_contact and node.machine.python]
    checks: list[Check] = []
    for what, versions, matters in _versions(known):
        usual = _usual(versions)
        for node, version in zip(known, versions, strict=True):
            if version != usual:
                state = FAIL if matters and _differs(node, known, usual, what) else WARN
                sentence = f"{node.name} has {what} {version or 'nowhere'}, most of the others have {usual or 'none'}."
                checks.append(node.check("versions", state, sentence))
    if known and not checks:
        first = known[0]
        torch = f", PyTorch {first.machine.torch}" if first.machine.torch else ""
        driver = f", driver {first.machine.driver}" if first.machine.driver else ""
        equal = "on all nodes" if len(known) > 1 else f"on {first.name}"
        sentence = f"Python {first.machine.python}{torch}{driver} and Trainyard {first.version} {equal}."
        checks.append(Check(name="versions", state=OK, sentence=sentence, node=first.name if len(known) == 1 else ""))
    return checks


def _versions(nodes: Sequence[CheckedNode]) -> Iterator[tuple[str, list[str], bool]]:
    yield "Python", [node.machine.python or "" for node in nodes], True
    yield "PyTorch", [node.machine.torch or "" for node in nodes], True
    yield "Trainyard", [node.version for node in nodes], False
    if any(node.machine.driver for node in nodes):
        yield "GPU driver", [node.machine.driver or "" for node in nodes], False


def _usual(versions: Sequence[str]) -> str:
    """Return the most frequent version; of two that are equally frequent, the later one."""
    counts = Counter(versions)
    return max(counts, key=lambda version: (counts[version], version), default="")


def _differs(node: CheckedNode, nodes: Sequence[CheckedNode], usual: str, what: str) -> bool:
    """Return whether the node has another major or minor version than most: its ranks cannot train with theirs."""
    place = 0 if what == "Python" else 1
    releases = {one.software[place] for one in nodes if usual == (one.machine.python, one.machine.torch)[place]}
    return node.software[place] not in releases


def unfit_in(nodes: Sequence[CheckedNode]) -> dict[str, list[str]]:
    """Return by id the nodes to leave out so that the others can train together, with the reasons. Of two that do not
    reach each other it is the one with more reasons, else the one that is not reached."""
    rest = list(nodes)
    found: dict[str, list[str]] = {}
    while len(rest) > 1:
        reasons = _reasons_between(rest)
        if not reasons:
            break
        unreached = Counter(one.second for one in broken_connections(rest))
        by_id = {node.id: node for node in rest}
        worst = max(reasons, key=lambda node: (len(reasons[node]), unreached[node], by_id[node].name))
        found[worst] = reasons[worst][:2]
        rest = [node for node in rest if node.id != worst]
    return found


def _reasons_between(nodes: Sequence[CheckedNode]) -> dict[str, list[str]]:
    """Return by id the reasons, as sentences, why a node cannot train with the others."""
    ids = {node.name: node.id for node in nodes}
    apart = ((node, one.sentence) for one in broken_connections(nodes) for node in (one.first, one.second))
    others = ((ids[check.node], check.sentence) for check in version_checks(nodes) if check.state == FAIL)
    return grouped([*apart, *others])
