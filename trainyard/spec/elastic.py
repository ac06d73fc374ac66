"""Runs on a range of nodes (``resources.nodes: {min, max}``): the rules, and the numbers of nodes that keep them.

A number of nodes is usable where all rules hold for it and the global batch divides among its ranks. The least one must
be; others that are not are skipped.
"""

from collections.abc import Iterator
from itertools import chain

from trainyard.formats.words import listed
from trainyard.spec.models import CommunicationSpec, RecipeSpec, Spec
from trainyard.spec.problems import Problem, show
from trainyard.spec.rules import broken_rules, divides
from trainyard.spec.sections.parallel import KIND
from trainyard.spec.sections.resources import NodeRange
from trainyard.spec.strategies import STRATEGIES

NODES = "resources.nodes"
MAX_NAMED = 8


def rule_problems(spec: Spec) -> Iterator[Problem]:
    """Yield what is wrong across the fields of the spec, elastic or not."""
    nodes = spec.resources.nodes
    if not isinstance(nodes, NodeRange):
        yield from broken_rules(spec)
        return
    if nodes.min > nodes.max:
        yield Problem(f"{NODES}.min", f"{nodes.min} is more than {NODES}.max, which is {nodes.max}")
        return
    own = list(_range_problems(spec))
    yield from own
    paths = {problem.path for problem in own}
    broken = [problem for problem in broken_rules(spec.at(nodes.min)) if problem.path not in paths]
    where = _where(spec, nodes) if broken and not own else ""
    for problem in broken:
        is_about_size = problem.path in ("train.batch_size", "parallel", "parallel.data", NODES)
        yield Problem(problem.path, f"{problem.message}{where if is_about_size else ''}")


def usable_nodes(spec: Spec) -> tuple[int, ...]:
    """Return the numbers of nodes on which the spec trains, the least first; the only one where it names one."""
    nodes = spec.resources.nodes
    if not isinstance(nodes, NodeRange):
        return (nodes,)
    return tuple(number for number in range(nodes.min, nodes.max + 1) if _is_usable(spec.at(number)))


def range_sentence(spec: Spec) -> str:
    """Say which numbers of nodes of the range are taken, and which are skipped; nothing where it is no range."""
    nodes = spec.resources.nodes
    if not isinstance(nodes, NodeRange):
        return ""
    usable = usable_nodes(spec)
    if len(usable) == nodes.max - nodes.min + 1:
        return f"It trains on {nodes.min} to {nodes.max} nodes, as many as are free."
    return f"Of {nodes.min} to {nodes.max} nodes it takes {_numbers(usable)}: on others the rules do not hold."


def _is_usable(spec: Spec) -> bool:
    # What divides is found out first, since it is cheap and most numbers of a long range do not.
    if isinstance(spec, RecipeSpec) and not divides(spec):
        return False
    return not any(True for _ in broken_rules(spec))


def _where(spec: Spec, nodes: NodeRange) -> str:
    usable = usable_nodes(spec)
    others = f"of its range these work: {_numbers(usable)}" if usable else f"nothing up to {nodes.max} nodes works"
    return f". That is on {nodes.min} {'node' if nodes.min == 1 else 'nodes'}, which {NODES}.min asks for; {others}"


def _numbers(numbers: tuple[int, ...]) -> str:
    return listed([str(number) for number in numbers], at_most=MAX_NAMED)


def _range_problems(spec: Spec) -> Iterator[Problem]:
    """Yield what cannot change its world size at all."""
    shown = show(spec.resources.nodes.model_dump() if isinstance(spec.resources.nodes, NodeRange) else None)
    if isinstance(spec, CommunicationSpec):
        yield Problem(NODES, f"{shown} would measure other nodes each time; accepted for a benchmark: a whole number")
    if isinstance(spec, RecipeSpec):
        yield from chain(_fixed_degrees(spec, shown), _what_is_lost(spec, shown))


def _fixed_degrees(spec: RecipeSpec, shown: str) -> Iterator[Problem]:
    parallel, train = spec.parallel, spec.train
    if parallel.data != "auto":
        words = f"{parallel.data} fixes the world size, and {NODES} is {shown}; accepted with that: auto"
        yield Problem("parallel.data", words)
    kind = parallel.synchronization.kind
    if kind != "every-step":
        why = "fixes the world size, since ranks have weights of their own"
        yield Problem(KIND, f"{kind} {why}, and {NODES} is {shown}; accepted with that: every-step")
    for name, found in (("find_batch_size", "batch"), ("find_learning_rate", "rate")):
        if (value := getattr(train, name)) != "none":
            words = f"{value} finds a {found} for one number of ranks, and {NODES} is {shown}; accepted with that: none"
            yield Problem(f"train.{name}", words)


def _what_is_lost(spec: RecipeSpec, shown: str) -> Iterator[Problem]:
    if any(one.keeps_unsent and spec.parallel.compression in one.values for one in STRATEGIES):
        yield Problem(
            "parallel.compression",
            f"{spec.parallel.compression} fixes the world size, since each rank keeps what it has not sent, and "
            f"{NODES} is {shown}; accepted with that: none, fp16, bf16",
        )
    if not spec.checkpoint.every_steps:
        yield Problem(
            "checkpoint.every_steps",
            f"0 keeps no checkpoints, so a run on {shown} nodes would start anew whenever it grows or shrinks; "
            "accepted with that: 1 or more",
        )
