"""``${NAME}`` in the arguments of a script: replaced on the node by what the rank has in its environment.

A shell would do this where it starts a program, and there is none. Only ``${NAME}`` is replaced: ``$NAME`` and a lone
``$`` stay as they are, and ``$${NAME}`` stands for the characters ``${NAME}``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_VARIABLE = re.compile(r"\$(\$)?\{([A-Za-z_][A-Za-z0-9_]*)\}")

# Variables of every rank, as if it were one of several. PATH, HOME and the like are the node's own affair.
OF_RANKS = {
    "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "GROUP_RANK": "0", "NODE_RANK": "0",
    "MASTER_ADDR": "", "MASTER_PORT": "", "TRAINYARD_RUN": "", "TRAINYARD_ATTEMPT": "", "TRAINYARD_FENCE": "",
    "TRAINYARD_RESTART": "0", "TRAINYARD_NODE": "", "TRAINYARD_OUTPUT": "", "TRAINYARD_CHECKPOINTS": "",
    "TRAINYARD_CACHE": "", "HOME": "", "TMPDIR": "",
}  # fmt: skip


def names_in(text: str) -> Iterator[str]:
    """Yield the names of the variables that would be replaced."""
    for found in _VARIABLE.finditer(text):
        if not found[1]:
            yield found[2]


def expand(text: str, environment: Mapping[str, str]) -> str:
    """Return the text with its variables replaced. Raises ValueError for one that the environment does not have."""

    def value(found: re.Match[str]) -> str:
        escape, name = found[1], found[2]
        if escape:
            return found[0][1:]
        if name not in environment and not OF_RANKS.get(name):
            raise ValueError(f"task.arguments: {found[0]} is no variable of this rank")
        return environment.get(name, OF_RANKS.get(name, ""))

    return _VARIABLE.sub(value, text)
